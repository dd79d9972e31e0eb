package processes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

var sigkill = scenario.Scenario{
	Number: 1,
	Name:   "sigkill",
	What:   "4 worker processes of 32 handlers, killed with SIGKILL and replaced at once",
	Peers:  true,
	Run: func(ctx context.Context, h *harness.Harness) error {
		return KillWorkers(ctx, h, Killing{
			Jobs:  harness.Size(h, 50_000, 8_000),
			Kills: harness.Size(h, 30, 5),
			Least: harness.Size(h, 1200*time.Millisecond, 600*time.Millisecond),
			Most:  harness.Size(h, 2000*time.Millisecond, 1200*time.Millisecond),
			Calm:  harness.Size(h, 5*time.Second, 2*time.Second),
		})
	},
}

// Killing says how many jobs and kills there are.
type Killing struct {
	Jobs, Kills       int
	Least, Most, Calm time.Duration // the pauses between kills, and the time before the first
}

// leaseOfKilled is short, so that a run takes less time.
const leaseOfKilled = 2 * time.Second

// KillWorkers kills and replaces workers under load.
func KillWorkers(ctx context.Context, h *harness.Harness, k Killing) error {
	crew, err := h.Crew(4, child.Work{
		Worker: peer.Worker{Concurrency: 32, Lease: leaseOfKilled},
		Least:  50 * time.Millisecond, // 128 handlers run some 850 jobs a second
		Most:   250 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	jobs, err := h.Enqueuer("enqueuer", child.Enqueue{Jobs: k.Jobs, Batch: 50, Ahead: 5000})
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, k.Calm); err != nil {
		return err
	}
	if err := h.WaitUntil(ctx, time.Minute, func() (bool, error) { return allStarted(ctx, h, crew.Names()) }); err != nil {
		return fmt.Errorf("not all workers begin: %w", err)
	}
	for _, strike := range seed.Strikes(h.Source("kills"), k.Kills, 4, k.Least, k.Most) {
		if err := h.Sleep(ctx, strike.After); err != nil {
			return err
		}
		if err := crew.Kill(ctx, strike.Victim); err != nil {
			return err
		}
		if err := crew.Replace(strike.Victim); err != nil {
			return err
		}
	}
	h.Logf("%d kills done", k.Kills)
	f, _, err := crew.Finish(ctx, jobs)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	checkRerun(h, f, leaseOfKilled)
	return nil
}

// checkRerun demands that jobs of a killed worker soon run again.
func checkRerun(h *harness.Harness, f audit.Finding, lease time.Duration) {
	h.Row.CheckTime(f.Rerun <= 2*lease, "what a killed process held runs again within 2 leases", "%.2f s at most, job %d; leases of %v", f.Rerun.Seconds(), f.Slowest, lease)
	h.Row.CheckTime(f.Again <= 5*lease, "what was held in its fourth attempt, or a later one, within 5", "%.2f s at most", f.Again.Seconds())
}

// allStarted reports whether each of the workers has started a job. Otherwise a kill would not find
// a job running.
func allStarted(ctx context.Context, h *harness.Harness, workers []string) (bool, error) {
	starts, err := h.Ledger.StartsSince(ctx, time.Time{})
	if err != nil {
		return false, err
	}
	begun := make(map[string]bool)
	for _, s := range starts {
		begun[s.Worker] = true
	}
	return !slices.ContainsFunc(workers, func(w string) bool { return !begun[w] }), nil
}
