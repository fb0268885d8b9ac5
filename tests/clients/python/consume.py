"""Writes an invoice for each order, once, however often its message arrives. pika, psycopg 3."""

import json
import os

import pika
import psycopg

database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
channel = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])).channel()
channel.basic_qos(prefetch_count=10)
for delivery, properties, body in channel.consume("billing"):
    # Leaving the block commits; an exception rolls back, and the message stays unacknowledged.
    with database.transaction():
        (is_new,) = database.execute(
            "SELECT inbox.receive('billing', %s)", [properties.message_id]
        ).fetchone()
        if is_new:
            order = json.loads(body)
            database.execute(
                "INSERT INTO invoices (order_id, total) VALUES (%s, %s)", [order["id"], order["total"]]
            )
    channel.basic_ack(delivery.delivery_tag)
