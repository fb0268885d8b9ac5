"""Places an order and an event about it as two objects of one session. SQLAlchemy."""

import os
from decimal import Decimal
from uuid import UUID

from sqlalchemy import JSON, BigInteger, Identity, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from uuid6 import uuid7  # Python has it from 3.14 on, in uuid


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    customer: Mapped[str]
    total: Mapped[Decimal]


class Event(Base):
    """The columns that an application may write; the others are the relay's, and have defaults."""

    __tablename__ = "events"
    __table_args__ = {"schema": "outbox"}

    # Chosen here: a role that cannot read the table cannot ask for RETURNING.
    id: Mapped[UUID] = mapped_column(primary_key=True, default=lambda: UUID(bytes=uuid7().bytes))
    topic: Mapped[str]
    payload: Mapped[dict] = mapped_column(JSON)
    aggregate_type: Mapped[str | None]
    aggregate_id: Mapped[str | None]


def place_order(session, customer, total):
    order = Order(customer=customer, total=total)
    session.add(order)
    session.flush()  # the order has its id now

    event = Event(
        topic="orders.created",
        payload={"id": order.id, "customer": order.customer, "total": str(order.total)},
        aggregate_type="order",
        aggregate_id=str(order.id),
    )
    session.add(event)
    session.flush()  # the database checks the event here, not at the commit
    return event.id


def engine():
    return create_engine(os.environ["DATABASE_URL"].replace("postgres://", "postgresql+psycopg://", 1))


if __name__ == "__main__":
    with Session(engine()) as session:
        with session.begin():
            print(place_order(session, "Ada", Decimal("42.50")))
        place_order(session, "Grace", Decimal("1.00"))
        session.rollback()  # neither the order nor its event stays
