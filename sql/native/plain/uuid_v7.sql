-- UUID version 7 (RFC 9562), without the extension: 48 bits of milliseconds, then 12 bits that count 1/4096 of one, then
-- random bits. Ids sort by the microsecond they were made in.
CREATE OR REPLACE FUNCTION outbox.uuid_v7() RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ticks bigint := floor(extract(epoch FROM clock_timestamp()) * 1000 * 4096);
BEGIN
    RETURN encode(
        substring(int8send(ticks >> 12) FROM 3)
        || substring(int8send(x'7000'::bigint | (ticks & x'0fff'::bigint)) FROM 7)
        || substring(uuid_send(gen_random_uuid()) FROM 9), -- its first two bits are the variant, as in version 4
        'hex')::uuid;
END
$$;
