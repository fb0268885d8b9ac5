"""Writes an invoice for each order, once, however often its record arrives. confluent-kafka, psycopg 3."""

import json
import os

import confluent_kafka
import psycopg

database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
consumer = confluent_kafka.Consumer({
    "bootstrap.servers": os.environ["KAFKA_BROKERS"],
    "group.id": "billing",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
})
consumer.subscribe(["orders.created"])
while True:
    record = consumer.poll(1.0)
    if record is None:
        continue
    if record.error():
        raise confluent_kafka.KafkaException(record.error())
    # Leaving the block commits; an exception rolls back, and the group's offset stays before the record.
    with database.transaction():
        (is_new,) = database.execute(
            "SELECT inbox.receive('billing', %s)", [dict(record.headers())["id"].decode()]
        ).fetchone()
        if is_new:
            order = json.loads(record.value())
            database.execute(
                "INSERT INTO invoices (order_id, total) VALUES (%s, %s)", [order["id"], order["total"]]
            )
    consumer.commit(record)
