// pg-transactional-outbox in its replication mode, publishing to RabbitMQ with confirms.
//
// DATABASE_URL, AMQP_URL, SLOT and PARALLEL (events in work at once) are given. It says "ready" when it is connected to the
// broker, and ends when its standard input does.
import amqp from 'amqplib';
import outbox from 'pg-transactional-outbox';

const { DATABASE_URL, AMQP_URL, SLOT, PARALLEL } = process.env;
const parallel = Number(PARALLEL);
process.stdin.on('close', () => process.exit()).resume();

const broker = await amqp.connect(AMQP_URL);
const channel = await broker.createConfirmChannel();
channel.on('return', (message) => {
  console.error('no queue is bound for', message.fields.routingKey);
  process.exit(1);
});

const publisher = {
  handle: ({ id, aggregateType, aggregateId, messageType, payload, metadata, createdAt }) =>
    new Promise((resolve, reject) => {
      const properties = {
        messageId: id,
        type: messageType,
        contentType: 'application/json',
        timestamp: Math.floor(Date.parse(createdAt) / 1000),
        headers: { aggregate_type: aggregateType, aggregate_id: aggregateId },
        persistent: true,
        mandatory: true,
      };
      const body = Buffer.from(JSON.stringify(payload));
      const confirmed = (error) => (error ? reject(error) : resolve());
      channel.publish('outbox', metadata.routingKey, body, properties, confirmed);
    }),
};

const connection = { connectionString: DATABASE_URL };
const say = (...what) => console.error(...what.map((it) => (it instanceof Error ? it : (it.id ?? it))));
outbox.initializeReplicationMessageListener(
  {
    outboxOrInbox: 'outbox',
    dbListenerConfig: connection,
    dbHandlerConfig: { ...connection, max: parallel },
    settings: {
      dbSchema: 'public',
      dbTable: 'outbox',
      dbPublication: 'pg_transactional_outbox_pub',
      dbReplicationSlot: SLOT,
      enableMaxAttemptsProtection: false, // both as in the package's example of an outbox
      enablePoisonousMessageProtection: false,
    },
  },
  publisher,
  { ...outbox.getDisabledLogger(), fatal: say, error: say, warn: say },
  // Its fastest: so many at once, in no order.
  { concurrencyStrategy: outbox.createReplicationSemaphoreConcurrencyController(parallel) },
);
console.log('ready');
