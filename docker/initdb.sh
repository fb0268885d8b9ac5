#!/bin/bash
# Runs once, when the image's entry point has made a new cluster: the extension in the first database, and a role for the
# relay if OUTBOX_RELAY_PASSWORD is set.
set -euo pipefail
sql() { psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" "$@"; }

sql --command 'CREATE EXTENSION outbox'
if [ -n "${OUTBOX_RELAY_PASSWORD:-}" ]; then
    sql <<'SQL'
\set password `printf %s "$OUTBOX_RELAY_PASSWORD"`
CREATE ROLE outbox_relay LOGIN REPLICATION PASSWORD :'password';
SELECT outbox.grant_relay('outbox_relay');
SQL
fi
