// Places an order and emits an event about it, in one transaction. pg (node-postgres).
import { pathToFileURL } from 'node:url';
import pg from 'pg';

// Within the caller's transaction.
export async function placeOrder(client, customer, total) {
  const { rows: [order] } = await client.query(
    'INSERT INTO orders (customer, total) VALUES ($1, $2) RETURNING id', [customer, total]);
  const { rows: [event] } = await client.query(
    "SELECT outbox.emit('orders.created', $1, aggregate_type => 'order', aggregate_id => $2) AS id",
    [{ id: Number(order.id), customer, total }, order.id]);
  return event.id;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  try {
    await client.query('BEGIN');
    console.log(await placeOrder(client, 'Ada', '42.50')); // money as text: a number would be a double
    await client.query('COMMIT');

    await client.query('BEGIN');
    await placeOrder(client, 'Grace', '1.00');
    await client.query('ROLLBACK'); // neither the order nor its event stays
  } finally {
    await client.end(); // without COMMIT, PostgreSQL rolls back
  }
}
