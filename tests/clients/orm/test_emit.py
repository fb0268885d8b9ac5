"""What an order emits. The role of the tests may read the events: the outbox's owner, or one with grant_operate()."""

import unittest
from decimal import Decimal

from emit import Event, engine, place_order
from sqlalchemy.orm import Session


class PlaceOrder(unittest.TestCase):
    def test_an_order_emits_that_it_was_created(self):
        with Session(engine()) as session:  # which ends without a commit: everything is rolled back
            event_id = place_order(session, "Ada", Decimal("42.50"))
            session.expire_all()  # read what the database has
            event = session.get(Event, event_id)
            self.assertEqual(event.topic, "orders.created")
            self.assertEqual(event.aggregate_id, str(event.payload["id"]))
            self.assertEqual(event.payload["total"], "42.50")
