#!/bin/sh
# lib/pq through PgBouncer in transaction mode runs another client's statement, without an error.
#
# A good engineer expects that a query outside a transaction either runs or fails. lib/pq sends it in
# two round trips: Parse, Describe and Sync, and when that is answered, Bind, Execute and Sync. The
# first Sync ends the transaction, so PgBouncer may give the server connection to another client,
# whose Parse replaces the unnamed statement. Here 8 clients share 3 connections. Half of them ask
# for 'a' || $1, the other half for 'b' || $1. Some get the answer to the others' question.
# With binary_parameters=yes, which sends all in one round trip, none does.
#
# errand makes a transaction of each call then: backend/postgres/round_trips.go.
# It needs initdb, pgbouncer and go, and starts a server of its own.
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
cat >"$dir/pgbouncer.ini" <<INI
[databases]
* = host=127.0.0.1 port=$port user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $((port + 1))
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
INI
bouncer_program=$(PATH=$PATH:/usr/sbin command -v pgbouncer)
as "$bouncer_program" -q "$dir/pgbouncer.ini" >/dev/null 2>&1 &
bouncer=$!
mkdir "$dir/prog"
cd "$dir/prog"
cat >main.go <<'GO'
package main

import (
	"database/sql"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/lib/pq"
)

func main() {
	db, err := sql.Open("postgres", os.Args[1])
	if err != nil {
		panic(err)
	}
	for deadline := time.Now().Add(10 * time.Second); db.Ping() != nil && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	var right, wrong, failed atomic.Int64
	var wg sync.WaitGroup
	for client := range 8 {
		letter := string("ab"[client%2])
		wg.Go(func() {
			for i := range 500 {
				var got string
				err := db.QueryRow("SELECT '"+letter+"' || $1::text", fmt.Sprint(i)).Scan(&got)
				switch {
				case err != nil:
					failed.Add(1)
				case got != letter+fmt.Sprint(i):
					wrong.Add(1)
				default:
					right.Add(1)
				}
			}
		})
	}
	wg.Wait()
	fmt.Println(right.Load(), wrong.Load(), failed.Load())
}
GO
cat >go.mod <<'MOD'
module example.org/finding

go 1.26

require github.com/lib/pq v1.12.3
MOD
export GOFLAGS=-mod=mod GOWORK=off
go mod tidy >/dev/null 2>&1
go build -o program .
url="postgres://postgres@127.0.0.1:$((port + 1))/postgres?sslmode=disable"
"$bin/postgres" --version
"$bouncer_program" --version | head -1
echo "lib/pq v1.12.3; of 4,000 queries:"
plain=$(./program "$url")
binary=$(./program "$url&binary_parameters=yes")
echo "right, another client's answer, failed:        $plain"
echo "the same, with binary_parameters=yes:          $binary"
set -- $plain
wrong=$2
[ "$wrong" -gt 0 ] && [ "$binary" = "4000 0 0" ]
