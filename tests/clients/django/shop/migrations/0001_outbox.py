"""Installs the outbox: the script that `make sql` writes, and that a project keeps beside its migrations."""

import os
from pathlib import Path

from django.db import migrations


class Migration(migrations.Migration):
    operations = [migrations.RunSQL(Path(os.environ["OUTBOX_SQL"]).read_text(), migrations.RunSQL.noop)]
