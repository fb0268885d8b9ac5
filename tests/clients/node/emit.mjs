// Places an order and emits an event about it, in one transaction. pg (node-postgres).
import pg from 'pg';

const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
try {
  await client.query('BEGIN');
  const { rows: [order] } = await client.query(
    'INSERT INTO orders (customer, total) VALUES ($1, $2) RETURNING id', ['Ada', '42.50']);
  const { rows: [event] } = await client.query(
    "SELECT outbox.emit('orders.created', $1, aggregate_type => 'order', aggregate_id => $2) AS id",
    [{ id: Number(order.id), customer: 'Ada', total: '42.50' }, order.id]);
  await client.query('COMMIT');
  console.log(event.id);
} finally {
  await client.end(); // without COMMIT, PostgreSQL rolls back
}
