"""Places an order and emits an event about it, in one transaction. psycopg 3."""

import os

import psycopg
from psycopg.types.json import Jsonb

# Leaving the block commits; an exception rolls back the order and its event.
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    (order_id,) = connection.execute(
        "INSERT INTO orders (customer, total) VALUES (%s, %s) RETURNING id", ["Ada", "42.50"]
    ).fetchone()
    (event_id,) = connection.execute(
        "SELECT outbox.emit('orders.created', %s, aggregate_type => 'order', aggregate_id => %s)",
        [Jsonb({"id": order_id, "customer": "Ada", "total": "42.50"}), str(order_id)],
    ).fetchone()

print(event_id)
