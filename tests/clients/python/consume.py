"""Writes an invoice for each order, once, however often its message arrives. pika, psycopg 3."""

import json
import logging
import os
import signal
import time

import pika
import psycopg

stopping = False


def stop(_signal, _frame):
    global stopping
    stopping = True


def handle(database, channel, delivery, properties, body):
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


def consume():
    """Consumes until a connection is lost, which raises, or until SIGTERM."""
    with (
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as database,
        pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])) as connection,
    ):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        for delivery, properties, body in channel.consume("billing", inactivity_timeout=0.5):
            if stopping:
                return  # closing the connection gives back what is not acknowledged
            if delivery is None:
                continue  # nothing came within the half second
            try:
                handle(database, channel, delivery, properties, body)
            except TRANSIENT:
                raise
            except Exception:
                logging.exception("cannot handle message %s: to the dead-letter exchange", properties.message_id)
                channel.basic_reject(delivery.delivery_tag, requeue=False)


# A lost connection, a deadlock, a server that shuts down: the broker delivers the message again.
TRANSIENT = (psycopg.OperationalError, pika.exceptions.AMQPError)
signal.signal(signal.SIGTERM, stop)
delay = 1
while not stopping:
    began = time.monotonic()
    try:
        consume()
    except TRANSIENT as error:
        if time.monotonic() - began > 60:
            delay = 1  # it worked for a while
        logging.warning("%r; connecting again in %s s", error, delay)
        time.sleep(delay)  # a signal does not cut this short, so it is never long
        delay = min(2 * delay, 8)
