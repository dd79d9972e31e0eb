package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// asked is a queue that records the requests of its worker's claims, and whose claims take time.
type asked struct {
	*queuetest.Queue
	takes func() time.Duration // how long a claim takes

	mu       sync.Mutex
	requests []queue.ClaimRequest
}

func (q *asked) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	q.mu.Lock()
	q.requests = append(q.requests, req)
	q.mu.Unlock()
	select {
	case <-time.After(q.takes()):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return q.Queue.Claim(ctx, req)
}

// all returns the requests of all claims.
func (q *asked) all() []queue.ClaimRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.requests)
}

// last returns the request of the last claim.
func (q *asked) last() queue.ClaimRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.requests[len(q.requests)-1]
}

// TestClaimsEase: while claims are not answered in time, each asks for less. When they are answered
// in time again, they ask for as much as before.
func TestClaimsEase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		q := &asked{Queue: newQueue(t, 0)}
		q.takes = func() time.Duration {
			if slow.Load() {
				return time.Minute
			}
			return time.Millisecond
		}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(0)), Concurrency: 64})
		time.Sleep(time.Second)
		if req := q.last(); req.Limit != 64 || req.Bytes != 16<<20 {
			t.Errorf("at first: asked for %d jobs of %d bytes, want 64 of 16 MiB", req.Limit, req.Bytes)
		}
		slow.Store(true)
		time.Sleep(time.Minute)
		if req := q.last(); req.Limit > 4 || req.Bytes > 1<<20 {
			t.Errorf("after a minute: asked for %d jobs of %d bytes, want at most 4 of 1 MiB", req.Limit, req.Bytes)
		}
		time.Sleep(5 * time.Minute)
		if req := q.last(); req.Limit != 1 || req.Bytes < 1 {
			t.Errorf("after six minutes: asked for %d jobs of %d bytes, want 1", req.Limit, req.Bytes)
		}
		slow.Store(false)
		time.Sleep(time.Minute)
		if req := q.last(); req.Limit != 64 || req.Bytes != 16<<20 {
			t.Errorf("at last: asked for %d jobs of %d bytes, want 64 of 16 MiB", req.Limit, req.Bytes)
		}
		w.stop()
	})
}

// TestLongJobsAhead: besides the jobs that run, a worker holds only as many long jobs as fit in two
// claims, also after it has claimed a thousand short ones.
func TestLongJobsAhead(t *testing.T) {
	extent.Long(t)
	const length, long, slots = 1 << 20, 150, 50
	text := json.RawMessage(`"` + strings.Repeat("x", length-2) + `"`)
	synctest.Test(t, func(t *testing.T) {
		q := &asked{Queue: newQueue(t, 5000), takes: func() time.Duration { return time.Millisecond }}
		for range long {
			enqueue(t, q, &queue.Job{Kind: work.Name, Payload: text})
		}
		var mu sync.Mutex
		most, ran := 0, 0
		handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			if len(job.Payload) < length {
				time.Sleep(100 * time.Microsecond)
				return nil
			}
			time.Sleep(5 * time.Millisecond)
			held := longRunning(t, q)
			mu.Lock()
			defer mu.Unlock()
			ran, most = ran+1, max(most, held)
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: slots})
		time.Sleep(time.Minute)
		w.stop()
		if ran != long {
			t.Errorf("%d long jobs ran, want %d", ran, long)
		}
		if want := slots + 2*16; most > want {
			t.Errorf("held %d long jobs at once, want at most %d", most, want)
		}
	})
}

// TestClaimsFullOfBytes: a claim without room for more bytes is full, and the worker claims ahead
// after it.
func TestClaimsFullOfBytes(t *testing.T) {
	extent.Long(t)
	text := json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	synctest.Test(t, func(t *testing.T) {
		q := &asked{Queue: newQueue(t, 0), takes: func() time.Duration { return time.Millisecond }}
		for range 100 {
			enqueue(t, q, &queue.Job{Kind: work.Name, Payload: text, Headers: map[string]string{"k": "v"}})
		}
		w := start(t, engine.Worker{Backend: q, Handler: taking(time.Microsecond), Concurrency: 4})
		until(t, "all are completed", func() bool { return count(t, q, queue.StatusCompleted) == 100 })
		few := 0
		for _, req := range q.all() {
			if req.Limit <= 4 {
				few++
			}
		}
		if few > 3 {
			t.Errorf("%d claims asked for 4 jobs or fewer, want the first and those that find nothing more", few)
		}
		w.stop()
	})
}

// longRunning returns how many long jobs are running.
func longRunning(t *testing.T, q *asked) (n int) {
	list, _, err := q.Jobs(t.Context(), queue.Filter{Status: queue.StatusRunning, Limit: 1000})
	if err != nil {
		t.Error(err)
	}
	for _, r := range list {
		if len(r.Payload) > 1000 {
			n++
		}
	}
	return n
}
