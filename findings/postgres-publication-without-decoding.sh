#!/bin/sh
# PostgreSQL: CREATE PUBLICATION p FOR ALL TABLES, on a server that cannot replicate logically.
#
# Expected: with wal_level = replica nothing can read a publication. The server says so in a warning,
# and the publication has no effect until wal_level is logical.
# Instead: from that moment every UPDATE and DELETE of a table without a key fails (55000), also in
# tables that are made later, although nobody can subscribe. INSERT works, so it shows late.
# errand: every table has a primary key since migration 0015_keys, and its suite runs under such a
# publication (backend/postgres/suite_test.go).
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
dir=$(mktemp -d)
trap 'as "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
if [ "$(id -u)" = 0 ]; then chown 65534:65534 "$dir"; fi
cd "$dir"
as "$bin/initdb" -D "$dir/data" -U postgres -A trust --no-sync >/dev/null
as "$bin/pg_ctl" -D "$dir/data" -w -l "$dir/log" -o "-c listen_addresses= -c unix_socket_directories=$dir -c fsync=off" start >/dev/null
sql() { as "$bin/psql" -X -h "$dir" -U postgres -At -c "$1" 2>&1; }

sql 'SHOW server_version'
echo "wal_level = $(sql 'SHOW wal_level')"
sql 'CREATE TABLE counter (n int)' && sql 'INSERT INTO counter VALUES (1)' && sql 'UPDATE counter SET n = 2'
sql 'CREATE PUBLICATION p FOR ALL TABLES'
sql 'INSERT INTO counter VALUES (3)'
answer=$(sql 'UPDATE counter SET n = 4') || true
echo "$answer"
sql 'CREATE TABLE later (n int)' && sql 'INSERT INTO later VALUES (1)'
later=$(sql 'DELETE FROM later') || true
echo "$later"
case "$answer$later" in
*'cannot update table "counter"'*'cannot delete from table "later"'*) echo "as described" ;;
*) echo "this has changed" && exit 1 ;;
esac
