"""Places an order that stays, and one that is rolled back."""

from decimal import Decimal

import django

django.setup()

from django.db import transaction  # noqa: E402
from shop.models import place_order  # noqa: E402

print(place_order("Ada", Decimal("42.50")))
with transaction.atomic():
    place_order("Grace", Decimal("1.00"))
    transaction.set_rollback(True)  # neither the order nor its event stays
