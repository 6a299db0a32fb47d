#!/bin/sh
# Starts PostgreSQL with the table of pg_row.py, for simulate --store (docs/lease-protocol.md).
set -e
# Debian has the programs outside of the path.
for dir in /usr/lib/postgresql/*/bin; do PATH=$PATH:$dir; done
cd "$DATA"
if [ "$(id -u)" = 0 ]; then # as whom the server does not run
    as='setpriv --reuid=postgres --regid=postgres --clear-groups'
    chown postgres .
fi
if [ ! -e db/postmaster.opts ]; then
    $as initdb -D db -A trust -U postgres --no-sync
    echo 'create table lease (key text primary key, owner text, fence bigint, expires timestamptz)' | $as postgres --single -D db postgres
fi
exec $as postgres -D db -F -h 127.0.0.1 -p "$PORT" -k ''
