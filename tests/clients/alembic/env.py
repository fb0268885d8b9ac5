"""Runs the migrations in one transaction. Alembic, SQLAlchemy."""

import os

from alembic import context
from sqlalchemy import create_engine

engine = create_engine(os.environ["DATABASE_URL"].replace("postgres://", "postgresql+psycopg://", 1))
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
