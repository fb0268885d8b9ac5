-- Returns the bytes that headers take as an AMQP table, with the longest and the shortest name in them and the depth of nesting,
-- without the extension, which does the same in Rust.
--
-- A field is its name (a length byte and the text), a type byte and the value; numbers take 8 bytes, text and containers
-- a length of 4 bytes before their content.
CREATE OR REPLACE FUNCTION outbox.header_size(
    headers jsonb, OUT bytes bigint, OUT longest_name text, OUT shortest_name text, OUT depth integer
)
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE value (depth, name, item) AS (
        SELECT 1, NULL::text, headers
        UNION ALL
        SELECT parent.depth + CASE WHEN jsonb_typeof(child.item) IN ('object', 'array') THEN 1 ELSE 0 END,
               child.name, child.item
        FROM value AS parent
        CROSS JOIN LATERAL (
            SELECT field.key, field.value
            FROM jsonb_each(CASE jsonb_typeof(parent.item) WHEN 'object' THEN parent.item END) AS field
            UNION ALL
            SELECT NULL, element.value
            FROM jsonb_array_elements(CASE jsonb_typeof(parent.item) WHEN 'array' THEN parent.item END) AS element
        ) AS child (name, item)
        WHERE parent.depth <= 65 -- one more than admitted
    )
    SELECT sum(
               CASE WHEN name IS NULL THEN 0 ELSE 1 + outbox.utf8_bytes(name) END
               + CASE jsonb_typeof(item)
                     WHEN 'null' THEN 1
                     WHEN 'boolean' THEN 2
                     WHEN 'number' THEN 9
                     WHEN 'string' THEN 5 + outbox.utf8_bytes(item #>> '{}')
                     ELSE 5
                 END
           ) - 1, -- the outermost table has no type byte
           (array_agg(name ORDER BY outbox.utf8_bytes(name) DESC) FILTER (WHERE name IS NOT NULL))[1],
           (array_agg(name ORDER BY outbox.utf8_bytes(name)) FILTER (WHERE name IS NOT NULL))[1],
           max(depth)
    FROM value
$$;
COMMENT ON FUNCTION outbox.header_size(jsonb) IS 'Size of headers as an AMQP table, with their longest and shortest name.';
