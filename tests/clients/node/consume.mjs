// Writes an invoice for each order, once, however often its message arrives. amqplib, pg (node-postgres).
import { setTimeout as sleep } from 'node:timers/promises';
import amqp from 'amqplib';
import pg from 'pg';

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());

async function handle(client, channel, message) {
  await client.query('BEGIN');
  const { rows: [{ is_new }] } = await client.query(
    "SELECT inbox.receive('billing', $1) AS is_new", [message.properties.messageId]);
  if (is_new) {
    const order = JSON.parse(message.content);
    await client.query('INSERT INTO invoices (order_id, total) VALUES ($1, $2)', [order.id, order.total]);
  }
  await client.query('COMMIT');
  channel.ack(message);
}

async function handleOrReject(client, channel, message) {
  try {
    await handle(client, channel, message);
  } catch (error) {
    await client.query('ROLLBACK'); // throws if the connection is lost: the message is not at fault
    if (/^(40|53|57)/.test(error.code)) throw error; // a deadlock, a server without room or about to stop
    console.error(`cannot handle message ${message.properties.messageId}: to the dead-letter exchange:`, error);
    channel.reject(message, false);
  }
}

// Consumes until a connection is lost, which throws, or until SIGTERM. The broker delivers again what is not acknowledged.
async function consume() {
  const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
  const connection = await amqp.connect(process.env.AMQP_URL);
  try {
    let atHand;
    await new Promise(async (resolve, reject) => {
      stop.signal.addEventListener('abort', resolve);
      client.on('error', reject);
      connection.on('error', reject);
      connection.on('close', () => reject(new Error('RabbitMQ has closed the connection')));
      try {
        await client.connect();
        const channel = await connection.createChannel();
        await channel.prefetch(1); // one connection to the database has one transaction at a time
        await channel.consume('billing', (message) => {
          if (message === null) return reject(new Error('the queue is gone'));
          atHand = handleOrReject(client, channel, message).catch(reject);
        });
      } catch (error) {
        reject(error);
      }
    });
    await atHand;
  } finally {
    await Promise.allSettled([client.end(), connection.close()]);
  }
}

for (let delay = 1; !stop.signal.aborted; delay = Math.min(2 * delay, 8)) {
  const began = Date.now();
  try {
    await consume();
  } catch (error) {
    if (Date.now() - began > 60_000) delay = 1; // it worked for a while
    console.error(`${error}; connecting again in ${delay} s`);
    await sleep(1000 * delay, null, { signal: stop.signal }).catch(() => {});
  }
}
