package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestMemoryOfLongJobs: a worker of 50 slots stays under 300 MB with jobs of 1 MiB, whether its
// handlers are slow or fast. With a claim of 1,000 such jobs it would not.
func TestMemoryOfLongJobs(t *testing.T) {
	if !extent.Whole() {
		t.Skip("ERRAND_TESTS=whole runs it: takes a quarter of a minute")
	}
	const n = 400
	for _, takes := range []time.Duration{0, 20 * time.Millisecond} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			db, q := fresh(t, postgres.Options{})
			enqueue(t, q, jobs(5000)...) // short ones first, so that it claims many
			noise := make([]byte, 3<<18)
			_, _ = rand.Read(noise) // never fails
			long := &queue.Job{Kind: "test", Payload: []byte(`"` + base64.StdEncoding.EncodeToString(noise)[2:] + `"`)}
			enqueue(t, q, long)
			exec(t, db, `INSERT INTO errand.jobs (kind, payload) SELECT kind, payload FROM errand.jobs, generate_series(2, $2) WHERE id = $1`, long.ID, n)
			runtime.GC()
			ctx, stop := context.WithCancel(t.Context())
			var left atomic.Int64
			left.Store(n)
			handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
				if len(job.Payload) > 1000 {
					time.Sleep(takes)
					if left.Add(-1) == 0 {
						stop()
					}
				}
				return nil
			})
			var watching sync.WaitGroup
			var most runtime.MemStats
			watching.Go(func() {
				for ctx.Err() == nil {
					var now runtime.MemStats
					runtime.ReadMemStats(&now)
					if now.HeapInuse > most.HeapInuse {
						most = now
					}
					time.Sleep(2 * time.Millisecond)
				}
			})
			err := engine.Worker{Backend: q, Handler: handler, Concurrency: 50, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
			watching.Wait()
			if err != nil {
				t.Error(err)
			}
			t.Logf("at most %d MB of heap in use, %d MB from the system", most.HeapInuse/1e6, most.Sys/1e6)
			if most.HeapInuse > 300e6 {
				t.Errorf("%d MB of heap in use, want at most 300", most.HeapInuse/1e6)
			}
		})
	}
}
