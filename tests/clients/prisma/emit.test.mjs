// What an order emits. The role of the tests may read the events: the outbox's owner, or one with grant_operate().
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect, placeOrder } from './emit.mjs';

test('an order emits that it was created', async () => {
  const prisma = connect();
  const rollback = new Error('nothing stays');
  await assert.rejects(prisma.$transaction(async (tx) => {
    const id = await placeOrder(tx, 'Ada', '42.50');
    const [event] = await tx.$queryRaw`
      SELECT topic, aggregate_id, payload FROM outbox.events WHERE id = ${id}::uuid`;
    assert.equal(event.topic, 'orders.created');
    assert.equal(event.aggregate_id, String(event.payload.id));
    assert.equal(event.payload.total, '42.50');
    throw rollback;
  }), rollback);
  await prisma.$disconnect();
});
