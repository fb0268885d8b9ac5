// Prints the SQL that the package's own setup makes for table and publication; the slot is made apart, as it says.
import outbox from 'pg-transactional-outbox';

const config = {
  outboxOrInbox: 'outbox',
  listenerRole: 'postgres',
  schema: 'public',
  table: 'outbox',
  publication: 'pg_transactional_outbox_pub',
};
console.log(outbox.DatabaseSetup.dropAndCreateTable(config));
console.log(outbox.DatabaseSetup.setupReplicationCore(config));
