-- psql --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 --file emit.sql "$DATABASE_URL"
BEGIN;

WITH placed AS (
    INSERT INTO orders (customer, total) VALUES ('Ada', 42.50) RETURNING *
)
SELECT outbox.emit(
    'orders.created',
    to_jsonb(placed) || jsonb_build_object('total', total::text),
    aggregate_type => 'order',
    aggregate_id => id::text
)
FROM placed;

COMMIT;
