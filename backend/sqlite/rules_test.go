package sqlite_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestLimitsOfSeveral: backends of one file, as several processes have them, keep one limit between
// them, and learn of its changes.
func TestLimitsOfSeveral(t *testing.T) {
	extent.Long(t)
	onEach(t, func(t *testing.T, driver string) {
		name := dsn(t)
		var all []*sqlite.Backend
		for range 3 {
			db := open(t, driver, name)
			migrate(t, db, sqlite.Options{})
			all = append(all, backend(t, db, sqlite.Options{}))
		}
		rule := queue.Rule{Queue: "q", Running: 3, PerGroup: 1}
		if err := all[0].SetRules(t.Context(), nil, rule); err != nil {
			t.Fatal(err)
		}
		const total = 120
		var jobs []*queue.Job
		for i := range total {
			jobs = append(jobs, &queue.Job{Queue: "q", Kind: "k", Group: fmt.Sprint(i % 5)})
		}
		if err := all[1].Enqueue(t.Context(), nil, jobs...); err != nil {
			t.Fatal(err)
		}
		var running, done atomic.Int64
		var claimers sync.WaitGroup
		until := time.Now().Add(30 * time.Second)
		for i := range 6 {
			b := all[i%len(all)]
			req := queue.ClaimRequest{Queues: []string{"q"}, Limit: 2, Lease: time.Minute, Worker: fmt.Sprint("w", i)}
			claimers.Go(func() {
				for done.Load() < total && time.Now().Before(until) && !t.Failed() {
					held, err := b.Claim(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					if n := running.Add(int64(len(held))); n > 3 {
						t.Errorf("%d jobs ran at once, want at most 3", n)
					}
					var outcomes []queue.Outcome
					for _, j := range held {
						outcomes = append(outcomes, queue.Outcome{Job: j})
					}
					running.Add(-int64(len(held)))
					if _, err := b.Settle(t.Context(), nil, outcomes...); err != nil {
						t.Error(err)
						return
					}
					done.Add(int64(len(held)))
				}
			})
		}
		claimers.Wait()
		if done.Load() != total {
			t.Errorf("%d jobs done, want %d", done.Load(), total)
		}
	})
}
