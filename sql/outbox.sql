-- The outbox, in the order in which it is made. This is the one list: psql installs the outbox with it where no extension can be, as on
-- managed PostgreSQL, and the extension, its upgrade and the files for tools without psql are made from it (scripts/flat-sql).
--
--     psql -d mydb -f sql/outbox.sql
--
-- The role that runs it owns the schema, and needs CREATE on the database. It is one transaction: it installs everything, or nothing. The
-- relay works with this schema as it does with the extension's.
--
-- The extension has native/ in place of native/plain/, and extension/ in place of plain/, each as far as it has that file.
\set ON_ERROR_STOP on
BEGIN;
\ir plain/transaction.sql
\if :{?upgrade}
    \ir plain/begin_upgrade.sql
    \ir upgrade/present.sql
    \ir upgrade/lock.sql
\else
    \ir plain/begin.sql
\endif

-- The tables. What is installed already changes by migrations; all the rest is made anew by each upgrade.
\ir native/plain/uuid_v7.sql
\if :{?upgrade}
    \ir migrations/0.1.0--0.2.0.sql
    \ir migrations/0.2.0--0.3.0.sql
\else
    \ir tables/requirements.sql
    \ir tables/status.sql
    \ir tables/events.sql
    \ir tables/indexes.sql
    \ir tables/audit.sql
    \ir tables/in_doubt.sql
\endif

-- What passes for an event.
\ir native/plain/utf8_bytes.sql
\ir native/plain/event_bytes.sql
\ir native/plain/header_size.sql
\ir native/plain/check_headers.sql
\ir native/plain/check_reserved.sql
\ir native/plain/payload_limit.sql
\ir native/plain/check_payload_size.sql
\ir native/plain/check_utf8.sql
\ir native/plain/context.sql
\ir native/plain/refuse.sql
\ir native/plain/admit.sql
\ir operate/limit_payloads.sql

-- The table's triggers.
\ir relay/wake_relay.sql
\ir triggers/admit.sql
\ir triggers/envelope.sql
\ir triggers/status.sql
\ir triggers/notify.sql

-- What applications call.
\ir native/plain/emit.sql
\ir emit/text.sql

-- What the relay calls.
\ir relay/cut_page.sql
\ir relay/flush.sql
\ir relay/pending_page_by_bytes.sql
\ir relay/pending_page.sql
\ir relay/due_page.sql
\ir relay/key_holders.sql
\ir relay/last_settled.sql
\ir relay/in_doubt.sql
\ir native/plain/settle_sent.sql
\ir relay/settle.sql
\ir relay/publication.sql
\ir relay/sequence.sql

-- What operators call.
\ir operate/note_action.sql
\ir operate/replay.sql
\ir operate/replay_many.sql
\ir operate/release.sql
\ir operate/retention.sql

-- What monitoring calls.
\ir monitor/views.sql
\ir monitor/count.sql
\ir monitor/health.sql
\ir monitor/failures.sql
\ir monitor/version.sql

-- What a dump has of it.
\ir plain/dump.sql

-- Who may do what.
\ir grants/rights.sql
\ir grants/grant_emit.sql
\ir grants/grant_relay.sql
\ir grants/grant_operate.sql
\ir grants/grant_monitor.sql
\ir grants/grant_maintain.sql
\ir grants/default_rights.sql
\ir grants/privileges.sql
\if :{?upgrade}
    \ir upgrade/grant_again.sql
    \ir upgrade/no_older_snapshot.sql
\endif
\ir plain/end.sql
COMMIT;
