#!/bin/sh
# The entry point of the images that docker.sh builds. It does what tests need of the official one:
# on the first start it makes a cluster, with POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB,
# POSTGRES_HOST_AUTH_METHOD and POSTGRES_INITDB_ARGS. Then it becomes the server, with its arguments.
set -eu

case ${1:-} in
'' | -*) set -- postgres "$@" ;;
esac
[ "$1" = postgres ] || exec "$@"

export PGDATA="${PGDATA:-/var/lib/postgresql/data}"
user=${POSTGRES_USER:-postgres}
db=${POSTGRES_DB:-$user}
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	: "${POSTGRES_PASSWORD:?must be set on the first start}"
	install -d -o postgres -g postgres -m 700 "$PGDATA"
	pwfile=$(as_postgres mktemp)
	as_postgres sh -c 'printf "%s\n" "$POSTGRES_PASSWORD" >"$1"' sh "$pwfile"
	# POSTGRES_INITDB_ARGS is a list of words.
	as_postgres initdb --username="$user" --pwfile="$pwfile" --encoding=UTF8 --auth=trust ${POSTGRES_INITDB_ARGS:-}
	rm "$pwfile"
	echo "host all all all ${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" >>"$PGDATA/pg_hba.conf"
	if [ "$db" != postgres ]; then
		printf 'CREATE DATABASE "%s";\n' "$db" | as_postgres postgres --single -j postgres >/dev/null
	fi
fi
[ -d /var/run/postgresql ] || install -d -o postgres -g postgres /var/run/postgresql
shift
exec setpriv --reuid=postgres --regid=postgres --init-groups postgres -c listen_addresses='*' "$@"
