<?php

// Places an order and emits an event about it, in one transaction. Eloquent and DB, Laravel's (illuminate/database).

use Illuminate\Database\Capsule\Manager as DB;
use Illuminate\Database\Eloquent\Model;

require __DIR__ . '/vendor/autoload.php';

class Order extends Model
{
    public $timestamps = false;
    protected $fillable = ['customer', 'total'];
    protected $casts = ['total' => 'decimal:2']; // a string in PHP
}

function emit(string $topic, array $payload, array $key): string
{
    $sql = 'SELECT outbox.emit(?, ?::json, aggregate_type => ?, aggregate_id => ?) AS id';
    return DB::selectOne($sql, [$topic, json_encode($payload, JSON_THROW_ON_ERROR), ...$key])->id;
}

function placeOrder(string $customer, string $total): string
{
    return DB::transaction(function () use ($customer, $total) {
        $order = Order::create(['customer' => $customer, 'total' => $total]);
        return emit('orders.created', $order->only('id', 'customer', 'total'), ['order', (string) $order->id]);
    });
}

// Laravel itself does this from config/database.php.
$url = parse_url(getenv('DATABASE_URL'));
$capsule = new DB();
$capsule->addConnection([
    'driver' => 'pgsql',
    'host' => $url['host'],
    'port' => $url['port'] ?? 5432,
    'database' => ltrim($url['path'], '/'),
    'username' => $url['user'],
    'password' => $url['pass'] ?? null,
]);
$capsule->setAsGlobal();
$capsule->bootEloquent();
