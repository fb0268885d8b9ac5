-- The version of this schema. A relay works with the same major and minor version.
CREATE OR REPLACE FUNCTION outbox.version() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '0.3.0';
COMMENT ON FUNCTION outbox.version() IS 'Version of the outbox schema.';
