"""The outbox, and the table of orders."""

import os
from pathlib import Path

from alembic import op
from sqlalchemy import BigInteger, Column

revision = "outbox"
down_revision = None


def upgrade() -> None:
    script = Path(os.environ["OUTBOX_SQL"]).read_text()
    # Without no_parameters, each % in the script would stand for a parameter.
    op.get_bind().exec_driver_sql(script, execution_options={"no_parameters": True})
    op.create_table("orders", Column("id", BigInteger, primary_key=True))
