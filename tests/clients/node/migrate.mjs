// Runs a script of the outbox, once, in the transaction that notes it. pg (node-postgres).
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import pg from 'pg';

const script = process.env.OUTBOX_SQL;
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
try {
  await client.query('CREATE TABLE IF NOT EXISTS migrations (script text PRIMARY KEY)');
  const { rowCount } = await client.query('SELECT FROM migrations WHERE script = $1', [basename(script)]);
  if (rowCount === 0) {
    await client.query('BEGIN');
    await client.query(await readFile(script, 'utf8')); // several statements at once: without parameters
    await client.query('INSERT INTO migrations VALUES ($1)', [basename(script)]);
    await client.query('COMMIT');
  }
} finally {
  await client.end(); // without COMMIT, PostgreSQL rolls back
}
