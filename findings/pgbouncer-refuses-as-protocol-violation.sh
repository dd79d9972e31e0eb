#!/bin/sh
# PgBouncer tells a client that no server could be reached with SQLSTATE 08P01, protocol_violation.
#
# A good engineer expects 57P03 (cannot_connect_now) or 08001, as from a server that refuses a
# session: nothing was run. Class 08 during a session otherwise means that the connection broke, and
# that the statement may have run; and 08P01 that one side speaks the protocol wrongly. While it
# cannot log in to its server, PgBouncer answers the query of a session that it has accepted with
# FATAL 08P01 "server login has been failing", and has sent nothing on. Only the text tells it from a
# statement that may have run.
#
# errand knows that text: isRefused in backend/postgres/errors.go. Otherwise each Enqueue of such an
# outage would end in ErrUnknown.
# It needs initdb, psql and pgbouncer, and starts a server of its own.
set -eu
dir=$(mktemp -d)
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
as() { "$@"; }
if [ "$(id -u)" = 0 ]; then
  chown postgres "$dir"
  as() { setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$dir" "$@"; }
fi
stop() {
  if [ -n "${bouncer:-}" ]; then kill "$bouncer" 2>/dev/null || true; fi
  as "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap stop EXIT
port=$((20000 + $$ % 20000))
cd "$dir"
as "$bin/initdb" -D "$dir/data" -U postgres -A trust >/dev/null
as "$bin/pg_ctl" -D "$dir/data" -w -l "$dir/log" -o "-p $port -k $dir -h 127.0.0.1" start >/dev/null
direct="host=127.0.0.1 port=$port user=postgres"
psql -qX "$direct dbname=postgres" -c 'CREATE DATABASE shop'
cat >"$dir/pgbouncer.ini" <<INI
[databases]
* = host=127.0.0.1 port=$port user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $((port + 1))
unix_socket_dir =
auth_type = any
pool_mode = transaction
INI
bouncer_program=$(PATH=$PATH:/usr/sbin command -v pgbouncer)
as "$bouncer_program" -q "$dir/pgbouncer.ini" >/dev/null 2>&1 &
bouncer=$!
through="host=127.0.0.1 port=$((port + 1)) user=postgres dbname=shop connect_timeout=10"
for _ in 1 2 3 4 5 6 7 8 9 10; do psql -qXAt "$through" -c 'SELECT 1' >/dev/null 2>&1 && break || sleep 0.5; done
"$bouncer_program" --version | head -1
"$bin/postgres" --version

psql -qX "$direct dbname=postgres" -c 'ALTER DATABASE shop ALLOW_CONNECTIONS false' \
  -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'shop'" >/dev/null
# The server says itself why it takes no session:
server=$(psql -qXAt "$direct dbname=shop" -c 'SELECT 1' 2>&1 || true)
echo "asked directly: $server"
answer=
for _ in 1 2 3 4 5 6 7 8 9 10; do
  answer=$(psql -qXAt "$through" -v VERBOSITY=verbose -c 'SELECT 1' 2>&1 || true)
  case $answer in *"server login has been failing"*) break ;; esac
  sleep 0.5
done
echo "asked through PgBouncer: $answer"
case $answer in
*08P01*"server login has been failing"*) echo "as described: protocol_violation, for a query that no server has seen" ;;
*) echo "CHANGED: expected 08P01 and 'server login has been failing'"; exit 1 ;;
esac
