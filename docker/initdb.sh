#!/bin/bash
# Runs once, when the image's entry point has made a new cluster: the extension in the first database, and roles for the
# relay and its dashboard if OUTBOX_RELAY_PASSWORD and OUTBOX_DASHBOARD_PASSWORD are set.
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
if [ -n "${OUTBOX_DASHBOARD_PASSWORD:-}" ]; then
    sql <<'SQL'
\set password `printf %s "$OUTBOX_DASHBOARD_PASSWORD"`
CREATE ROLE dashboard LOGIN PASSWORD :'password';
SELECT outbox.grant_monitor('dashboard');
SQL
fi
