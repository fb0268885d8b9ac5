// Runs the folder of migrations, where 0000_outbox.sql is the script that `make sql` writes. Drizzle.
import { copyFile, cp, mkdtemp, rm } from 'node:fs/promises';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';

// A project has the script in the folder, and its history in Drizzle's own schema.
const migrationsFolder = await mkdtemp('migrations-');
await cp('migrations', migrationsFolder, { recursive: true });
await copyFile(process.env.OUTBOX_SQL, `${migrationsFolder}/0000_outbox.sql`);
const db = drizzle(process.env.DATABASE_URL);
try {
  await migrate(db, { migrationsFolder, migrationsSchema: 'public' });
} finally {
  await db.$client.end();
  await rm(migrationsFolder, { recursive: true });
}
