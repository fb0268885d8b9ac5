-- Upgrades an outbox that an earlier version's script installed: run it as the role that has run that one.
--
--     psql -d mydb -f sql/upgrade.sql
--
-- It is one transaction. Whoever emits waits while the table is written anew; an earlier relay then waits for the new one. With the
-- extension, ALTER EXTENSION outbox UPDATE does the same.
\set ON_ERROR_STOP on
\set upgrade
\ir outbox.sql
