-- In Rust: outbox_ext/src/settle_sent.rs. native/plain/settle_sent.sql is its twin in SQL.
CREATE OR REPLACE FUNCTION outbox.settle_sent(ids uuid[]) RETURNS uuid[]
LANGUAGE c VOLATILE STRICT
AS 'MODULE_PATHNAME', 'settle_sent_wrapper';
