-- From 0.2.0 to 0.3.0, what only the plain SQL has: functions that are Rust in the extension. Frozen when 0.3.0 is released.

\ir ../uuid_v7.sql
\ir ../utf8_bytes.sql
\ir ../event_bytes.sql
\ir ../header_size.sql
\ir ../check_headers.sql
\ir ../check_reserved.sql
\ir ../payload_limit.sql
\ir ../check_payload_size.sql
\ir ../check_utf8.sql
\ir ../context.sql
\ir ../refuse.sql
\ir ../admit.sql
\ir ../emit.sql
\ir ../settle_sent.sql

DROP FUNCTION outbox.check_headers(jsonb);
DROP FUNCTION outbox.printed_bytes(jsonb);
