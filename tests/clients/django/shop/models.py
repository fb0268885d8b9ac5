"""Places an order and emits an event about it, in one transaction. Django."""

import json

from django.db import connection, models, transaction


class Order(models.Model):
    customer = models.TextField()
    total = models.DecimalField(max_digits=12, decimal_places=2)

    class Meta:
        db_table = "orders"


def emit(topic, payload, key):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT outbox.emit(%s, %s::json, aggregate_type => %s, aggregate_id => %s)",
            [topic, json.dumps(payload), *key],
        )
        return cursor.fetchone()[0]


@transaction.atomic
def place_order(customer, total):
    order = Order.objects.create(customer=customer, total=total)
    payload = {"id": order.pk, "customer": order.customer, "total": str(order.total)}
    return emit("orders.created", payload, key=("order", str(order.pk)))
