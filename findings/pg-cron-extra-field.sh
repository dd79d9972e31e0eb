#!/bin/sh
# pg_cron takes `6#2`, and a sixth field, and ignores what follows the weekday's number.
#
# A good engineer expects that an expression of a different dialect is refused, as pg_cron refuses
# `L` and `?`, or that it means what it means elsewhere: `6#2` the second Saturday, and six
# fields a field of seconds first. pg_cron runs the first each Saturday, and takes the first five
# of six fields. Here the weekday of the first is today's, and its ordinal is not. In the second
# the fifth field is today's weekday; elsewhere that is a month, and the sixth, the weekday, is
# tomorrow's. So neither should run. Both run in each minute.
#
# errand refuses both: queue/cron, docs/migrating.md. It needs Debian with PostgreSQL 15, and
# downloads postgresql-15-cron without installing it.
set -eu
dir=$(mktemp -d)
chmod 755 "$dir"
as() { "$@"; }
if [ "$(id -u)" = 0 ]; then
  as() { setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$dir" "$@"; }
fi
bin=$dir/usr/lib/postgresql/15/bin
stop() {
  as "$bin/pg_ctl" -D "$dir/own/data" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap stop EXIT
cd "$dir"
mkdir -p usr/lib/postgresql usr/share/postgresql own
cp -r /usr/lib/postgresql/15 usr/lib/postgresql/
cp -r /usr/share/postgresql/15 usr/share/postgresql/
apt-get download -qq postgresql-15-cron 2>/dev/null
dpkg-deb -x postgresql-15-cron_*.deb .
if [ "$(id -u)" = 0 ]; then chown postgres own; fi
as "$bin/initdb" -D own/data -U postgres -A trust >/dev/null
port=$((20000 + $$ % 20000))
cat >>own/data/postgresql.conf <<CONF
port = $port
listen_addresses = ''
unix_socket_directories = '$dir/own'
shared_preload_libraries = 'pg_cron'
cron.use_background_workers = on
CONF
as "$bin/pg_ctl" -D own/data -w -l "$dir/own/log" start >/dev/null
sql() { as "$bin/psql" -X -q -h "$dir/own" -p "$port" -U postgres -Atc "$1"; }
sql "CREATE EXTENSION pg_cron; CREATE TABLE ran (what text)"
today=$(date -u +%w)
other=$(((($(date -u +%-d) - 1) / 7 + 1) % 4 + 1))
for expression in "* * * * $today#$other" "* * * * $today $(((today + 1) % 7))"; do
  sql "SELECT cron.schedule('$expression', '$expression', \$\$INSERT INTO ran VALUES ('$expression')\$\$)" >/dev/null
done
sleep 125
dpkg-deb -f postgresql-15-cron_*.deb Package Version
echo "weekday $today, runs in two minutes:"
sql "SELECT what, count(*) FROM ran GROUP BY what ORDER BY what" | tee own.out
[ "$(grep -c '|[1-9]' own.out)" = 2 ]
