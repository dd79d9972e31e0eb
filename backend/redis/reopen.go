package redis

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// isReplica reports whether a server has refused a call because it is a replica. After a switchover
// behind one address the open connections lead to the old master, which is a replica now. New
// connections lead to the new master.
func isReplica(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && (strings.HasPrefix(e.Error(), "READONLY ") || strings.HasPrefix(e.Error(), "MASTERDOWN "))
}

// reopener makes one caller reopen connections while the others wait.
type reopener struct {
	mu   sync.Mutex
	last time.Time                     // when connections were reopened last
	busy atomic.Pointer[chan struct{}] // closed when the connections are reopened; nil while nobody reopens them
}

// wait waits while connections are reopened, at most until ctx ends.
func (r *reopener) wait(ctx context.Context) {
	if busy := r.busy.Load(); busy != nil {
		select {
		case <-*busy:
		case <-ctx.Done():
		}
	}
}

// begin reports whether the caller is to reopen connections. It then calls done. It returns false
// if another caller does it or has done it moments ago.
func (r *reopener) begin() (done func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy.Load() != nil || time.Since(r.last) < reopenPause {
		return nil, false
	}
	busy := make(chan struct{})
	r.busy.Store(&busy)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last = time.Now()
		r.busy.Store(nil)
		close(busy)
	}, true
}

const (
	// reopenPause is the least time between two reopenings: a failover takes seconds.
	reopenPause = 500 * time.Millisecond
	// reopenTries is how many commands reopen the connections. The client sends each over a random
	// one of its connections, of which it has four or fewer unless its options say otherwise.
	reopenTries = 64
	// answersLeft is how long the calls in flight have for their answers before their connections are
	// closed.
	answersLeft = 20 * time.Millisecond
)

// reopen makes the client connect anew to its address, and returns when it has. The backend cannot
// close connections of a client that its caller owns, and QUIT, which no ACL refuses, makes the
// server close them. Other users of the client may see one io.EOF. Clients of a cluster or of
// Sentinel follow the master themselves.
func (b *Backend) reopen(ctx context.Context) {
	if b.client.Mode() != rueidis.ClientModeStandalone {
		return
	}
	done, ok := b.reopener.begin()
	if !ok {
		b.reopener.wait(ctx)
		return
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	sleep(ctx, answersLeft)
	quit := func(probe func() rueidis.Completed) {
		// The last command makes the client notice that the connection has ended.
		b.client.DoMulti(ctx, probe(), b.client.B().Arbitrary("QUIT").Build(), probe())
	}
	quit(func() rueidis.Completed { return b.client.B().Ping().Build() }) // the connection of commands without a key
	concurrently(func() {                                                 // a key makes the client choose a random connection
		quit(func() rueidis.Completed {
			return b.client.B().Hget().Key(configKey(b.opts.Namespace)).Field("format").Build()
		})
	})
}

// concurrently calls send reopenTries times at once.
func concurrently(send func()) {
	var all sync.WaitGroup
	for range reopenTries {
		all.Go(send)
	}
	all.Wait()
}
