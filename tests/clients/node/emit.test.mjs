// What an order emits. The role of the tests may read the events: the outbox's owner, or one with grant_operate().
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { placeOrder } from './emit.mjs';

test('an order emits that it was created', async () => {
  const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  try {
    await client.query('BEGIN');
    const id = await placeOrder(client, 'Ada', '42.50');
    const { rows: [event] } = await client.query(
      'SELECT topic, aggregate_id, payload FROM outbox.events WHERE id = $1', [id]);
    assert.equal(event.topic, 'orders.created');
    assert.equal(event.aggregate_id, String(event.payload.id));
    assert.equal(event.payload.total, '42.50');
  } finally {
    await client.end(); // without a commit: nothing stays
  }
});
