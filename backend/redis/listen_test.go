package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/queue/driver"
)

// keepListening calls Listen for a worker until the test ends. It returns what gets its wake-ups.
func keepListening(t *testing.T, b *redis.Backend, worker string) (woken chan struct{}) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	woken = make(chan struct{}, 1)
	go func() {
		ended <- b.Listen(ctx, worker, []string{"q"}, func(s driver.Signal) {
			if !s.Jobs {
				return
			}
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Listen: %v", err)
		}
	})
	return woken
}

// wantUnheard waits until CheckListen of a worker returns an error with a text. After that, mend is
// called, and it waits until the worker is woken and CheckListen returns nil.
func wantUnheard(t *testing.T, b *redis.Backend, text string, woken chan struct{}, mend func()) {
	t.Helper()
	checker, ok := driver.As[driver.Waiter](b)
	if !ok {
		t.Fatal("the backend is no ListenChecker")
	}
	var err error
	eventually(t, "CheckListen says why", func() bool {
		err = checker.CheckListen("w")
		return err != nil
	})
	if !strings.Contains(err.Error(), text) {
		t.Errorf("CheckListen: got %v, want %s", err, text)
	}
	if err := checker.CheckListen("another"); err != nil {
		t.Errorf("CheckListen of another worker: %v", err)
	}
	select {
	case <-woken: // by what there was before
	default:
	}
	mend()
	select {
	case <-woken:
	case <-time.After(20 * time.Second):
		t.Fatal("the worker is not woken")
	}
	eventually(t, "CheckListen is content", func() bool { return checker.CheckListen("w") == nil })
	if _, err := b.Sleep(t.Context(), "w", []string{"q"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Enqueue(t.Context(), nil, newJobs(1)...); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(20 * time.Second):
		t.Fatal("a new job does not wake the worker")
	}
}

// TestMayNotListen: a user may not subscribe. CheckListen says so until the user may.
func TestMayNotListen(t *testing.T) {
	p := newParted(t, redis.Options{})
	p.do(t, "ACL", "SETUSER", "part", "resetchannels")
	wantUnheard(t, p.Backend, "NOPERM", keepListening(t, p.Backend, "w"), func() {
		p.do(t, "ACL", "SETUSER", "part", "allchannels")
	})
}

// TestListenCannotConnect: subscriptions have a connection of their own, which cannot be made for a
// while, though commands work.
func TestListenCannotConnect(t *testing.T) {
	t.Parallel()
	s, _ := startWith(t, nil)
	var isFull atomic.Bool
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: s.Addrs, AlwaysRESP2: true, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if isFull.Load() {
				return nil, errors.New("max number of clients reached")
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b := open(t, client, redis.Options{Partitions: 1})
	isFull.Store(true)
	woken := keepListening(t, b, "w")
	wantUnheard(t, b, "max number of clients reached", woken, func() { isFull.Store(false) })
}
