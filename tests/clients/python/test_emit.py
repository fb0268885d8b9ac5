"""What an order emits. The role of the tests may read the events: the outbox's owner, or one with grant_operate()."""

import os
import unittest
from decimal import Decimal

import psycopg
from emit import place_order


class PlaceOrder(unittest.TestCase):
    def test_an_order_emits_that_it_was_created(self):
        with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
            with connection.transaction(force_rollback=True):
                event_id = place_order(connection, "Ada", Decimal("42.50"))
                topic, key, payload = connection.execute(
                    "SELECT topic, aggregate_id, payload FROM outbox.events WHERE id = %s", [event_id]
                ).fetchone()
        self.assertEqual(topic, "orders.created")
        self.assertEqual(key, str(payload["id"]))
        self.assertEqual(payload["total"], "42.50")
