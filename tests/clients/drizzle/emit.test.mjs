// What an order emits. The role of the tests may read the events: the outbox's owner, or one with grant_operate().
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TransactionRollbackError, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { placeOrder } from './emit.mjs';

test('an order emits that it was created', async () => {
  const db = drizzle(process.env.DATABASE_URL);
  await assert.rejects(db.transaction(async (tx) => {
    const id = await placeOrder(tx, 'Ada', '42.50');
    const { rows: [event] } = await tx.execute(
      sql`SELECT topic, aggregate_id, payload FROM outbox.events WHERE id = ${id}`);
    assert.equal(event.topic, 'orders.created');
    assert.equal(event.aggregate_id, String(event.payload.id));
    assert.equal(event.payload.total, '42.50');
    tx.rollback();
  }), TransactionRollbackError);
  await db.$client.end();
});
