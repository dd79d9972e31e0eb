package processes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/lab"
	"github.com/errandhq/errand/lab/chaos/internal/plan"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/system"
)

var sigkill = scenario.Scenario{
	Number: 1,
	Name:   "sigkill",
	What:   "4 worker processes of 32 handlers, killed with SIGKILL and replaced at once",
	Peers:  true,
	Run: func(ctx context.Context, l *lab.Lab) error {
		return KillWorkers(ctx, l, Killing{
			Jobs:  lab.Size(l, 50_000, 8_000),
			Kills: lab.Size(l, 30, 5),
			Least: lab.Size(l, 1200*time.Millisecond, 600*time.Millisecond),
			Most:  lab.Size(l, 2000*time.Millisecond, 1200*time.Millisecond),
			Calm:  lab.Size(l, 5*time.Second, 2*time.Second),
		})
	},
}

// Killing says how much of it there is.
type Killing struct {
	Jobs, Kills       int
	Least, Most, Calm time.Duration // between kills, and before the first
}

// leaseOfKilled is short, so that a run is, too.
const leaseOfKilled = 2 * time.Second

// KillWorkers has workers under load killed and replaced.
func KillWorkers(ctx context.Context, l *lab.Lab, k Killing) error {
	crew, err := l.Crew(4, child.Work{
		Worker: system.Worker{Concurrency: 32, Lease: leaseOfKilled},
		Least:  50 * time.Millisecond, // 128 handlers get through some 850 jobs a second
		Most:   250 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	jobs, err := l.Enqueuer("enqueuer", child.Enqueue{Jobs: k.Jobs, Batch: 50, Ahead: 5000})
	if err != nil {
		return err
	}
	if err := l.Sleep(ctx, k.Calm); err != nil {
		return err
	}
	if err := l.Until(ctx, time.Minute, func() (bool, error) { return allStarted(ctx, l, crew.Names()) }); err != nil {
		return fmt.Errorf("not all workers begin: %w", err)
	}
	for _, strike := range plan.Strikes(l.Source("kills"), k.Kills, 4, k.Least, k.Most) {
		if err := l.Sleep(ctx, strike.After); err != nil {
			return err
		}
		if err := crew.Kill(ctx, strike.Victim); err != nil {
			return err
		}
		if err := crew.Replace(strike.Victim); err != nil {
			return err
		}
	}
	l.Say("%d kills done", k.Kills)
	f, _, err := crew.Finish(ctx, jobs)
	if err != nil {
		return err
	}
	l.CheckDuplicates(f)
	checkRerun(l, f, leaseOfKilled)
	return nil
}

// checkRerun demands that what was killed with its worker has soon been in other hands.
func checkRerun(l *lab.Lab, f audit.Finding, lease time.Duration) {
	l.Row.CheckTime(f.Rerun <= 2*lease, "what a killed process held runs again within 2 leases", "%.2f s at most, job %d; leases of %v", f.Rerun.Seconds(), f.Slowest, lease)
	l.Row.CheckTime(f.Again <= 5*lease, "what was held in its fourth attempt, or a later one, within 5", "%.2f s at most", f.Again.Seconds())
}

// allStarted says whether each of the workers has started a job: who has not cannot be struck during
// one.
func allStarted(ctx context.Context, l *lab.Lab, workers []string) (bool, error) {
	starts, err := l.Ledger.StartsSince(ctx, time.Time{})
	if err != nil {
		return false, err
	}
	begun := make(map[string]bool)
	for _, s := range starts {
		begun[s.Worker] = true
	}
	return !slices.ContainsFunc(workers, func(w string) bool { return !begun[w] }), nil
}
