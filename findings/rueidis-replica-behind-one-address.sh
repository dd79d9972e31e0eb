#!/bin/sh
# After a planned switchover behind one address (a proxy, managed Redis) the old master is a replica
# and keeps its connections, on which each write is refused with READONLY; new connections lead to
# the new master. go-redis closes a connection with that answer, so its next write succeeds. A
# standalone client of github.com/redis/rueidis keeps its connections: each write fails until the
# program ends. By default it has up to four connections, and those that it has opened stay.
# errand: backend/redis/reopen.go; TestSwitchover.
# It needs go and redis-server in PATH, and the Go module proxy. It starts two servers, and ends them.
set -eu
dir=$(mktemp -d)
first= second=
trap 'kill $first $second 2>/dev/null; wait; rm -rf "$dir"' EXIT
cd "$dir"
mkdir 1 2
redis-server --port 27391 --bind 127.0.0.1 --dir "$dir/1" --save "" >1/log &
first=$!
redis-server --port 27392 --bind 127.0.0.1 --dir "$dir/2" --save "" --replicaof 127.0.0.1 27391 --repl-diskless-sync-delay 0 >2/log &
second=$!
redis-server --version
cat >go.mod <<'EOM'
module finding

go 1.26
EOM
cat >main.go <<'EOM'
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

func main() {
	ctx := context.Background()
	var to atomic.Value
	to.Store("127.0.0.1:27391")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() { // the address: it passes connections on, and each stays where it leads
		for {
			near, err := l.Accept()
			check(err)
			far, err := net.Dial("tcp", to.Load().(string))
			check(err)
			go io.Copy(far, near)
			go io.Copy(near, far)
		}
	}()
	admin := func(addr string) *goredis.Client { return goredis.NewClient(&goredis.Options{Addr: addr}) }
	first, second := admin("127.0.0.1:27391"), admin("127.0.0.1:27392")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		info, err := second.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "master_link_status:up") {
			break
		}
		if time.Now().After(deadline) {
			panic("the replica is not connected")
		}
	}
	other := goredis.NewClient(&goredis.Options{Addr: l.Addr().String(), MaxRetries: -1})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{l.Addr().String()}, DisableCache: true, PipelineMultiplex: -1}) // one connection
	check(err)
	set := func() error { return client.Do(ctx, client.B().Set().Key("a").Value("b").Build()).Error() }
	check(set())
	check(other.Set(ctx, "a", "b", 0).Err())

	check(second.Do(ctx, "REPLICAOF", "NO", "ONE").Err())
	to.Store("127.0.0.1:27392")
	check(first.Do(ctx, "REPLICAOF", "127.0.0.1", "27392").Err())
	var failed, otherFailed int
	for range 30 {
		if err := set(); err != nil {
			if failed++; failed == 1 {
				fmt.Println("rueidis v1.0.79:", err)
			}
		}
		if err := other.Set(ctx, "a", "b", 0).Err(); err != nil {
			if otherFailed++; otherFailed == 1 {
				fmt.Println("go-redis v9.7.0:", err)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Printf("failed of 30 writes in 3 s after the switchover: rueidis %d, go-redis %d\n", failed, otherFailed)
	if failed < 20 || otherFailed > 2 { // rueidis opens a connection only when it first uses it
		fmt.Println("changed")
		os.Exit(1)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
EOM
go get github.com/redis/rueidis@v1.0.79 github.com/redis/go-redis/v9@v9.7.0 2>/dev/null
go run .
