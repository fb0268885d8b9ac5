-- Upgrades an outbox that an earlier version's script installed: run it as the role that has run that one.
--
--     psql -d mydb -f sql/upgrade.sql
--
-- It is one transaction. From 0.2.0 on, whoever emits waits while the table is written anew, and the relay of that version waits for the
-- new one after it. With the extension, ALTER EXTENSION outbox UPDATE does the same.
\set ON_ERROR_STOP on
\set upgrade
\ir outbox.sql
