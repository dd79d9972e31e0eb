package processes

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

var sigterm = scenario.Scenario{
	Number: 21,
	Name:   "sigterm",
	What:   "a rolling deploy that never ends: workers under load get SIGTERM and are replaced",
	Run:    deploy,
}

func deploy(ctx context.Context, h *harness.Harness) error {
	const workers, grace = 4, 5 * time.Second
	crew, err := h.Crew(workers, child.Work{
		Worker: peer.Worker{Concurrency: 16, Grace: grace},
		Least:  50 * time.Millisecond, // 64 handlers run some 430 jobs a second
		Most:   250 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Batch: 50, Ahead: 1000})
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, 5*time.Second, 2*time.Second)); err != nil {
		return err
	}
	var slowest time.Duration
	for _, strike := range seed.Strikes(h.Source("deploys"), harness.Size(h, 200, 10), workers, 50*time.Millisecond, 800*time.Millisecond) {
		if err := h.Sleep(ctx, strike.After); err != nil {
			return err
		}
		took, err := DeployOne(h, crew, strike)
		if err != nil {
			return err
		}
		slowest = max(slowest, took)
	}
	f, _, err := scenario.Finish(ctx, h, crew, enqueuer)
	if err != nil {
		return err
	}
	h.Row.Check(f.Dup == 0, "duplicates 0", "%d", f.Dup)
	h.Row.Note("leases of 30 s, the default; the next worker is started before the last has ended, or after it, in turns that are drawn")
	h.Row.CheckTime(slowest <= grace, "stopped in good order within Grace", "%.2f s at most, Grace %v", slowest.Seconds(), grace)
	return nil
}

// DeployOne replaces a worker. The draw decides whether the new one is started before the old one
// has ended, or after. It returns how long the old one took to stop.
func DeployOne(h *harness.Harness, crew *harness.Crew, strike seed.Strike) (took time.Duration, err error) {
	old := crew.At(strike.Victim)
	begun := time.Now()
	h.RecordFault(audit.Fault{What: "SIGTERM", At: begun, Worker: old.Name})
	if err := old.Terminate(); err != nil {
		return 0, fmt.Errorf("%s: %w", old.Name, err)
	}
	overlapping := strike.Draw%2 == 0
	if overlapping {
		if err := crew.Replace(strike.Victim); err != nil {
			return 0, err
		}
	}
	if err := old.Wait(time.Minute); err != nil {
		return 0, err
	}
	took = old.EndedAt().Sub(begun)
	if overlapping {
		return took, nil
	}
	return took, crew.Replace(strike.Victim)
}
