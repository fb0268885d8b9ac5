// Places an order and emits an event about it, in one transaction. Prisma.
import { pathToFileURL } from 'node:url';
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from '@prisma/client';

export const connect = () =>
  new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });

// No model stands for outbox.events: create() reads back what it has written, which the application's role may not.
async function emit(tx, topic, payload, [type, id]) {
  const [event] = await tx.$queryRaw`
    SELECT outbox.emit(${topic}, ${JSON.stringify(payload)}::json,
                       aggregate_type => ${type}, aggregate_id => ${id}) AS id`;
  return event.id;
}

// Within the caller's transaction.
export async function placeOrder(tx, customer, total) {
  const order = await tx.order.create({ data: { customer, total } });
  const payload = { id: Number(order.id), customer, total: order.total.toFixed(2) };
  return emit(tx, 'orders.created', payload, ['order', String(order.id)]);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const prisma = connect();
  console.log(await prisma.$transaction((tx) => placeOrder(tx, 'Ada', '42.50')));
  const refused = new Error('the payment was refused');
  await prisma.$transaction(async (tx) => {
    await placeOrder(tx, 'Grace', '1.00');
    throw refused; // neither the order nor its event stays
  }).catch((error) => {
    if (error !== refused) throw error;
  });
  await prisma.$disconnect();
}
