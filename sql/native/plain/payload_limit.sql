-- The largest payload of any session, in bytes, whatever that sets outbox.max_payload_bytes to. Only the owner can change it:
-- outbox.limit_payloads() replaces this function, so an upgrade must not. With the extension it is the setting outbox.payload_limit.
--
-- STABLE, so that plans which have its number in them are made anew once it is replaced.
CREATE FUNCTION outbox.payload_limit() RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN 16777216;
COMMENT ON FUNCTION outbox.payload_limit() IS 'Bytes of the largest payload of any session; changed by limit_payloads().';
