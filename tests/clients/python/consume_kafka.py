"""Writes an invoice for each order, once, however often its record arrives. confluent-kafka, psycopg 3."""

import json
import logging
import os
import signal
import time
from contextlib import closing

import confluent_kafka
import psycopg

stopping = False


def stop(_signal, _frame):
    global stopping
    stopping = True


def handle(database, consumer, record):
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


def put_aside(consumer, record):
    """Writes a record that cannot be handled into a topic of its own, for somebody to look at."""
    errors = []
    producer.produce(
        "billing.dead",
        record.value(),
        record.key(),
        headers=record.headers(),
        on_delivery=lambda error, _: errors.append(error) if error else None,
    )
    if producer.flush(30) or errors:
        raise confluent_kafka.KafkaException(*errors)
    consumer.commit(record)


def consume():
    """Consumes until something transient fails, which raises, or until SIGTERM."""
    with (
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as database,
        closing(confluent_kafka.Consumer(BROKERS | GROUP)) as consumer,
    ):
        consumer.subscribe(["orders.created"])
        while not stopping:
            record = consumer.poll(0.5)
            if record is None:
                continue  # nothing came within the half second
            if record.error():
                raise confluent_kafka.KafkaException(record.error())
            try:
                handle(database, consumer, record)
            except TRANSIENT:
                raise
            except Exception:
                logging.exception("cannot handle %s: to billing.dead", record.headers())
                put_aside(consumer, record)


# A lost connection, a deadlock, a broker that is away: a new consumer begins at the group's offset again.
TRANSIENT = (psycopg.OperationalError, confluent_kafka.KafkaException)
BROKERS = {"bootstrap.servers": os.environ["KAFKA_BROKERS"]}
GROUP = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
producer = confluent_kafka.Producer(BROKERS | {"enable.idempotence": True})
signal.signal(signal.SIGTERM, stop)
delay = 1
while not stopping:
    began = time.monotonic()
    try:
        consume()
    except TRANSIENT as error:
        if time.monotonic() - began > 60:
            delay = 1  # it worked for a while
        logging.warning("%r; consuming again in %s s", error, delay)
        time.sleep(delay)
        delay = min(2 * delay, 8)
