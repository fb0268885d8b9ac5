-- Returns the bytes that a text has as the relay is sent it, without the extension, which does the same in Rust
-- (outbox_ext/src/postgres/encoding.rs): PostgreSQL sends the texts of a database in UTF-8 or SQL_ASCII as they are, and converts
-- those of any other encoding. The function is inlined into the call.
CREATE OR REPLACE FUNCTION outbox.utf8_bytes(value text) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') THEN octet_length(value)
    ELSE octet_length(convert_to(value, 'UTF8')) END;
COMMENT ON FUNCTION outbox.utf8_bytes(text) IS 'Size of a text in UTF-8.';
