"""What an order emits. Django has made the test's database, and the role that has may read the events."""

from decimal import Decimal

from django.db import connection
from django.test import TestCase

from shop.models import place_order


class PlaceOrder(TestCase):
    def test_an_order_emits_that_it_was_created(self):
        event_id = place_order("Ada", Decimal("42.50"))
        with connection.cursor() as cursor:
            cursor.execute("SELECT topic, aggregate_id, payload FROM outbox.events WHERE id = %s", [event_id])
            topic, key, payload = cursor.fetchone()
        self.assertEqual(topic, "orders.created")
        self.assertEqual(key, str(payload["id"]))
        self.assertEqual(payload["total"], "42.50")
