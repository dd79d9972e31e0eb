package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// TestSlowJobKeepsNoPayloads: while one job runs, fewer than three payloads of settled jobs of the
// same claim are in memory, and none while the worker is idle. What the driver keeps for its
// connections is bounded by a sixth of the batch.
func TestSlowJobKeepsNoPayloads(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const jobs, size = 60, 1 << 19
	for _, w := range firstWays(2) {
		t.Run(w.name, func(t *testing.T) {
			db, listen := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{Listen: listen})
			for range jobs {
				enqueue(t, q, &queue.Job{Kind: "k", Payload: fmt.Appendf(nil, "%q", strings.Repeat("x", size-10))})
			}
			before := heap()
			var seen payloadsSeen
			finish := make(chan struct{})
			handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
				seen.add(job)
				if job.ID == jobs/2 {
					<-finish
				}
				return nil
			})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- engine.Worker{Backend: q, Handler: handler, Concurrency: jobs, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
			}()
			wantKept := func(completed, most int) {
				t.Helper()
				eventually(t, fmt.Sprintf("%d jobs are completed and at most %d payloads are kept", completed, most), func() bool {
					return value[int](t, db, "SELECT count(*) FROM errand.jobs WHERE status = 'completed'") == completed &&
						heap()-before < jobs*size/6 && seen.reachable() <= most
				})
			}
			wantKept(jobs-1, 2)
			close(finish)
			wantKept(jobs, 0)
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// payloadsSeen remembers where the payloads of jobs are, without keeping them there.
type payloadsSeen struct {
	mu  sync.Mutex
	all []weak.Pointer[byte]
}

func (p *payloadsSeen) add(job *queue.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, weak.Make(&job.Payload[0]))
}

func (p *payloadsSeen) reachable() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.all {
		if b.Value() != nil {
			n++
		}
	}
	return n
}

// heap is how many bytes are in use once all garbage is collected: pools let go of what
// they keep at the second collection.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
