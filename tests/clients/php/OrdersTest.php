<?php

// What an order emits. The role of the tests may read the events: the outbox's owner, or one with grant_operate().

use Illuminate\Database\Capsule\Manager as DB;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/orders.php';

class OrdersTest extends TestCase
{
    protected function setUp(): void
    {
        DB::beginTransaction();
    }

    protected function tearDown(): void
    {
        DB::rollBack();
    }

    public function testAnOrderEmitsThatItWasCreated(): void
    {
        $id = placeOrder('Ada', '42.50');
        $event = DB::table('outbox.events')->find($id, ['topic', 'aggregate_id', 'payload']);
        $payload = json_decode($event->payload);
        $this->assertSame('orders.created', $event->topic);
        $this->assertSame((string) $payload->id, $event->aggregate_id);
        $this->assertSame('42.50', $payload->total);
    }
}
