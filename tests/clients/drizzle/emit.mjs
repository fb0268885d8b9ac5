// Places an order and emits an event about it, in one transaction. Drizzle with pg (node-postgres).
import { pathToFileURL } from 'node:url';
import { TransactionRollbackError, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { bigint, numeric, pgTable, text } from 'drizzle-orm/pg-core';

export const orders = pgTable('orders', {
  id: bigint({ mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  customer: text().notNull(),
  total: numeric({ precision: 12, scale: 2 }).notNull(), // a string in JavaScript
});

async function emit(tx, topic, payload, [type, id]) {
  const { rows: [event] } = await tx.execute(sql`
    SELECT outbox.emit(${topic}, ${JSON.stringify(payload)}::json,
                       aggregate_type => ${type}, aggregate_id => ${id}) AS id`);
  return event.id;
}

// Within the caller's transaction.
export async function placeOrder(tx, customer, total) {
  const [order] = await tx.insert(orders).values({ customer, total }).returning();
  return emit(tx, 'orders.created', order, ['order', String(order.id)]);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const db = drizzle(process.env.DATABASE_URL);
  try {
    console.log(await db.transaction((tx) => placeOrder(tx, 'Ada', '42.50')));
    await db.transaction(async (tx) => {
      await placeOrder(tx, 'Grace', '1.00');
      tx.rollback(); // throws: neither the order nor its event stays
    }).catch((error) => {
      if (!(error instanceof TransactionRollbackError)) throw error;
    });
  } finally {
    await db.$client.end();
  }
}
