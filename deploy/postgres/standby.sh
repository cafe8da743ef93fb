#!/bin/bash
# Begins as a copy of the primary, and follows it.
set -euo pipefail
pass="$(dirname "$PGDATA")/standby.pgpass"
printf '*:*:*:*:%s\n' "$(cat /run/secrets/postgres-standby.password)" > "$pass"
chmod 600 "$pass"
chown postgres "$pass"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    install -d -o postgres -m 700 "$PGDATA"
    gosu postgres pg_basebackup -D "$PGDATA" -R -X stream -c fast -S "$STANDBY" \
        -d "host=$PRIMARY user=standby passfile=$pass application_name=$STANDBY"
fi
exec docker-entrypoint.sh "$@"
