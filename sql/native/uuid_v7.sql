-- In Rust: outbox_ext/src/uuid_v7.rs. native/plain/uuid_v7.sql is its twin in SQL.
CREATE OR REPLACE FUNCTION outbox.uuid_v7() RETURNS uuid
LANGUAGE c VOLATILE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'uuid_v7_wrapper';
