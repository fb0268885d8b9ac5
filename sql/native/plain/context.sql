-- The settings of a session that its events carry. The extension checks them when they are set; without it PostgreSQL takes
-- any text, and an event that would carry it is refused.
CREATE OR REPLACE FUNCTION outbox.context_correlation_id() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    setting text := current_setting('outbox.correlation_id');
BEGIN
    IF octet_length(setting) > 255 OR getdatabaseencoding() NOT IN ('UTF8', 'SQL_ASCII') AND outbox.utf8_bytes(setting) > 255 THEN
        RAISE EXCEPTION 'correlation_id is % bytes long, the limit is 255',
                CASE WHEN octet_length(setting) > 255 THEN octet_length(setting) ELSE outbox.utf8_bytes(setting) END
            USING ERRCODE = 'string_data_right_truncation',
                  DETAIL = 'It was taken from the setting outbox.correlation_id.',
                  HINT = 'Shorten the setting, or give correlation_id.';
    END IF;
    PERFORM convert_to(setting, 'UTF8');
    RETURN setting;
EXCEPTION WHEN character_not_in_repertoire THEN
    RAISE EXCEPTION 'correlation_id is not valid UTF-8'
        USING ERRCODE = 'character_not_in_repertoire',
              DETAIL = 'It was taken from the setting outbox.correlation_id.',
              HINT = 'Change the setting, or give correlation_id.';
END
$$;
COMMENT ON FUNCTION outbox.context_correlation_id() IS 'The setting outbox.correlation_id, checked.';

-- W3C Trace Context: version, trace id, parent id and flags, neither id being all zeros; a later version than today's may have more behind them.
CREATE OR REPLACE FUNCTION outbox.context_traceparent() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    setting text := current_setting('outbox.traceparent');
BEGIN
    IF octet_length(setting) > 255
        OR setting !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]*)?$'
        OR setting LIKE '00%' AND octet_length(setting) <> 55
    THEN
        RAISE EXCEPTION 'the setting outbox.traceparent is not a traceparent'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'W3C Trace Context: version, trace id, parent id and flags, in lower-case hexadecimal.',
                  HINT = 'For example ''00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01''.';
    END IF;
    PERFORM outbox.check_utf8('headers', setting); -- a last character that is cut off does not show in a regular expression
    RETURN setting;
END
$$;
COMMENT ON FUNCTION outbox.context_traceparent() IS 'The setting outbox.traceparent, checked.';
