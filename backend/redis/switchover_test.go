package redis_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/queue/driver"
)

// pair is a master and its replica behind one address.
type pair struct {
	address         *proxy
	master, replica rueidis.Client
	addrs           [2]string // of the master and the replica
}

func startPair(t *testing.T) *pair {
	t.Helper()
	settings := map[string]string{"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}
	first, master := startWith(t, settings)
	second, replica := startWith(t, settings)
	p := &pair{master: master, replica: replica, addrs: [2]string{first.Addrs[0], second.Addrs[0]}, address: newProxy(t, first.Addrs[0])}
	follow(t, replica, p.addrs[0])
	return p
}

// follow makes a server the replica of the one with that address, and waits until it has its data.
func follow(t *testing.T, replica rueidis.Client, master string) {
	t.Helper()
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Do(t.Context(), replica.B().Arbitrary("REPLICAOF").Args(host, port).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	for {
		if replicationOf(t, replica)["master_link_status"] == "up" {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// replicationOf returns what a server says of its replication.
func replicationOf(t *testing.T, server rueidis.Client) map[string]string {
	t.Helper()
	text, err := server.Do(t.Context(), server.B().Info().Section("replication").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return redis.InfoFields(text)
}

// switchOver makes the replica the master, and the master its replica. All connections stay open.
func (p *pair) switchOver(t *testing.T) {
	t.Helper()
	for replicationOf(t, p.replica)["slave_repl_offset"] != replicationOf(t, p.master)["master_repl_offset"] {
		time.Sleep(5 * time.Millisecond)
	}
	if err := p.replica.Do(t.Context(), p.replica.B().Arbitrary("REPLICAOF").Args("NO", "ONE").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	p.address.to.Store(&p.addrs[1])
	follow(t, p.master, p.addrs[1])
}

// TestSwitchover: the master behind an address becomes a replica, and its connections stay open.
// Calls of the same backend find the new master, each within its own time.
func TestSwitchover(t *testing.T) {
	for name, c := range map[string]struct {
		client  rueidis.ClientOption
		options redis.Options
	}{
		"default":      {},
		"connections":  {client: rueidis.ClientOption{PipelineMultiplex: 4}}, // 16, also on one processor
		"durable":      {options: redis.Options{Durable: 1}},
		"no pipelines": {client: rueidis.ClientOption{DisableAutoPipelining: true}},
		"RESP2":        {client: rueidis.ClientOption{AlwaysRESP2: true}},
		"no retry":     {client: rueidis.ClientOption{DisableRetry: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startPair(t)
			c.client.InitAddress, c.client.DisableCache = []string{p.address.addr()}, true
			client, err := rueidis.NewClient(c.client)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			b := open(t, client, c.options)
			woken := listen(t, b)
			useAll(t, b)
			p.switchOver(t)
			if err := errors.Join(useAll(t, b)...); err != nil {
				t.Errorf("after the switchover: %v", err)
			}
			if err := b.Check(t.Context()); err != nil {
				t.Errorf("Check after the switchover: %v", err)
			}
			for len(woken) > 0 {
				<-woken
			}
			if _, err := b.Sleep(t.Context(), "w", []string{"q"}); err != nil {
				t.Fatal(err)
			}
			if err := b.Enqueue(t.Context(), nil, newJobs(1)...); err != nil {
				t.Fatal(err)
			}
			<-woken
			if jobs, err := b.Claim(t.Context(), request(1000)); len(jobs) != 2*callers+1 || err != nil {
				t.Errorf("got %d jobs, %v, want %d", len(jobs), err, 2*callers+1)
			}
		})
	}
}

// callers is how many goroutines use a backend at once.
const callers = 20

// useAll enqueues a job in each of many goroutines, so that all connections are in use.
func useAll(t *testing.T, b *redis.Backend) (errs []error) {
	t.Helper()
	ended := make(chan error, callers)
	for range callers {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			ended <- b.Enqueue(ctx, nil, newJobs(1)...)
		}()
	}
	for range callers {
		errs = append(errs, <-ended)
	}
	return errs
}

// listen returns a channel that has a value whenever b wakes workers of the queue q.
func listen(t *testing.T, b driver.Waiter) (woken chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	woken = make(chan struct{}, 10_000)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Listen(ctx, "w", []string{"q"}, func(s driver.Signal) {
			if s.Jobs {
				woken <- struct{}{}
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-woken // it is subscribed
	return woken
}
