#!/bin/sh
# A client of github.com/redis/rueidis with AlwaysRESP2 has a connection of its own for
# subscriptions. When that connection has ended, Receive should subscribe over a new one, as it does
# with RESP3. It keeps the one that has ended: Receive returns the error of
# that connection at each call, for as long as the connection of the commands lives.
# errand: a worker then polls and says so (backend/redis/listen.go, docs/redis.md).
# It needs go and redis-server in PATH, and the Go module proxy. It starts a server, and ends it.
set -eu
dir=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null; wait; rm -rf "$dir"' EXIT
cd "$dir"
redis-server --port 27393 --bind 127.0.0.1 --dir "$dir" --save "" >log &
server=$!
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
	"os"
	"time"

	"github.com/redis/rueidis"
)

func main() {
	resp3, resp2 := resubscribes(false), resubscribes(true)
	fmt.Printf("subscribed again within 5 s: RESP3 %v, AlwaysRESP2 %v\n", resp3, resp2)
	if !resp3 || resp2 {
		fmt.Println("changed")
		os.Exit(1)
	}
}

// resubscribes reports whether a client subscribes again after its subscription's connection ended.
func resubscribes(old bool) bool {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	open := func(old bool) rueidis.Client {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			c, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{"127.0.0.1:27393"}, AlwaysRESP2: old, DisableCache: true, DisableRetry: true,
				ForceSingleClient: true, PipelineMultiplex: -1,
			})
			if err == nil {
				return c
			}
			if time.Now().After(end) {
				panic(err)
			}
		}
	}
	client, admin := open(old), open(false)
	defer client.Close()
	defer admin.Close()
	confirmed := make(chan struct{}, 100)
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			confirmed <- struct{}{}
		}
	})
	go func() {
		last := ""
		for ctx.Err() == nil {
			err := client.Receive(hooked, client.B().Subscribe().Channel("a").Build(), func(rueidis.PubSubMessage) {})
			if err != nil && ctx.Err() == nil && err.Error() != last {
				last = err.Error()
				fmt.Printf("rueidis v1.0.79, AlwaysRESP2 %v: Receive: %s\n", old, last)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	<-confirmed
	if err := admin.Do(ctx, admin.B().Arbitrary("CLIENT", "KILL", "TYPE", "pubsub").Build()).Error(); err != nil {
		panic(err)
	}
	again := false
	select {
	case <-confirmed:
		again = true
	case <-time.After(5 * time.Second):
	}
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		panic(err)
	}
	fmt.Printf("AlwaysRESP2 %v: commands work\n", old)
	return again
}
EOM
go get github.com/redis/rueidis@v1.0.79 2>/dev/null
go run .
