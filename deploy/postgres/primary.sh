#!/bin/bash
# Run once, when the primary's data is made: users, the database, the standby's way in, and that commits wait for it.
set -euo pipefail
psql -v ON_ERROR_STOP=1 -U postgres <<'SQL'
\set dunlin `cat /run/secrets/postgres.password`
\set standby `cat /run/secrets/postgres-standby.password`
CREATE USER dunlin PASSWORD :'dunlin';
-- It sees whether a standby is there: a start asks.
GRANT pg_monitor TO dunlin;
CREATE DATABASE dunlin OWNER dunlin TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8';
CREATE USER standby REPLICATION PASSWORD :'standby';
-- Keeps what the standby has not had yet.
SELECT pg_create_physical_replication_slot('postgres_2');
-- Counts from the next start on, which comes after this script: there is no standby yet to wait for.
ALTER SYSTEM SET synchronous_standby_names = 'postgres_2';
SQL
echo "host replication standby all scram-sha-256" >> "$PGDATA/pg_hba.conf"
