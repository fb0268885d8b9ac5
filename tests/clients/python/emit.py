"""Places an order and emits an event about it, in one transaction. psycopg 3."""

import os
from decimal import Decimal

import psycopg
from psycopg.types.json import Json


def place_order(connection, customer, total):
    # Leaving the block commits; an exception rolls back the order and its event.
    with connection.transaction():
        (order_id,) = connection.execute(
            "INSERT INTO orders (customer, total) VALUES (%s, %s) RETURNING id", [customer, total]
        ).fetchone()
        (event_id,) = connection.execute(
            "SELECT outbox.emit('orders.created', %s, aggregate_type => 'order', aggregate_id => %s)",
            [Json({"id": order_id, "customer": customer, "total": str(total)}), str(order_id)],
        ).fetchone()
    return event_id


if __name__ == "__main__":
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        print(place_order(connection, "Ada", Decimal("42.50")))
        with connection.transaction():
            place_order(connection, "Grace", Decimal("1.00"))
            raise psycopg.Rollback  # neither the order nor its event stays
