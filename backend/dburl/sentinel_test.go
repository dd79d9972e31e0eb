package dburl_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// startSentinel starts a master and its replica, and a Sentinel that watches them as "main". It
// returns the address of the Sentinel, and the master.
func startSentinel(t *testing.T) (sentinel string, master *redistest.Server) {
	t.Helper()
	redistest.Open(t) // skips the test if there is no redis-server
	start := func(f func() (*redistest.Server, error)) *redistest.Server {
		s, err := f()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	node := func() (*redistest.Server, error) {
		return redistest.Start(t.Context(), redistest.Options{Settings: map[string]string{"repl-diskless-sync-delay": "0"}})
	}
	master, replica := start(node), start(node)
	host, port, err := net.SplitHostPort(master.Addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	tell(t, replica.Addrs[0], "REPLICAOF", host, port)
	for !strings.Contains(tell(t, replica.Addrs[0], "INFO", "replication"), "master_link_status:up") {
		time.Sleep(10 * time.Millisecond)
	}
	watcher := start(func() (*redistest.Server, error) {
		return redistest.StartSentinel(t.Context(), "main", master.Addrs[0])
	}).Addrs[0]
	for !strings.Contains(tell(t, watcher, "INFO", "sentinel"), "slaves=1") {
		time.Sleep(10 * time.Millisecond)
	}
	return watcher, master
}

// tell sends a command to the server at an address, and returns its answer as text.
func tell(t *testing.T, addr string, words ...string) string {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	text, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRedisSentinel: the master that Sentinels watch dies, and the same handle goes on with its
// replica. The jobs from before are there.
func TestRedisSentinel(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a failover")
	}
	t.Parallel()
	sentinel, master := startSentinel(t)
	if d, err := dburl.Open("redis+sentinel://"+sentinel+"/other", dburl.Options{}); d != nil || !errorsAsInvalid(err, "know no master of the name") {
		t.Errorf("a master that the Sentinels do not know: got %v, %v, want an InvalidError", d, err)
	}
	d := open(t, "redis+sentinel://"+sentinel+"/main?namespace=a&durable=1")
	if d.Scheme != dburl.Redis || d.Description != `Redis namespace a at the master "main" of the Sentinels `+sentinel {
		t.Errorf("got %s, %s", d.Scheme, d.Description)
	}
	first := greeting.New("before")
	if err := d.Queue.Enqueue(t.Context(), nil, first); err != nil {
		t.Fatal(err)
	}
	d.Close()
	d = open(t, "redis+sentinel://"+sentinel+"/main?namespace=a") // the new master has no replica
	if err := master.Kill(master.Addrs[0]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for err := errors.New("not yet"); err != nil; {
		if err = d.Queue.Enqueue(ctx, nil, greeting.New("after")); ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	jobs, err := d.Queue.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 2, Lease: time.Minute, Worker: "w"})
	if err != nil || len(jobs) != 2 || jobs[0].ID != first.ID {
		t.Errorf("got %v, %v, want the jobs from before and after the failover", jobs, err)
	}
}

// errorsAsInvalid reports whether err is an InvalidError of the URL with that text in it.
func errorsAsInvalid(err error, text string) bool {
	e, ok := errors.AsType[*queue.InvalidError](err)
	return ok && e.Field == "URL" && strings.Contains(e.Problem, text)
}
