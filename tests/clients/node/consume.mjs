// Writes an invoice for each order, once, however often its message arrives. amqplib, pg (node-postgres).
import amqp from 'amqplib';
import pg from 'pg';

const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
const channel = await (await amqp.connect(process.env.AMQP_URL)).createChannel();
await channel.prefetch(1); // one connection to the database has one transaction at a time
await channel.consume('billing', async (message) => {
  await client.query('BEGIN');
  const { rows: [{ is_new }] } = await client.query(
    "SELECT inbox.receive('billing', $1) AS is_new", [message.properties.messageId]);
  if (is_new) {
    const order = JSON.parse(message.content);
    await client.query('INSERT INTO invoices (order_id, total) VALUES ($1, $2)', [order.id, order.total]);
  }
  await client.query('COMMIT'); // an error ends the process: PostgreSQL rolls back, and the message stays unacknowledged
  channel.ack(message);
});
