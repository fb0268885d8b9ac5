-- In Rust: outbox_ext/src/admit.rs. native/plain/admit.sql is its twin in SQL.
CREATE OR REPLACE FUNCTION outbox.admit() RETURNS trigger
LANGUAGE c VOLATILE STRICT
AS 'MODULE_PATHNAME', 'admit_wrapper';
