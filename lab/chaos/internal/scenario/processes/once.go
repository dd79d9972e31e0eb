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

var once = scenario.Scenario{
	Number: 3,
	Name:   "once",
	What:   "workers under load are frozen past their leases and go on; work and settling are one transaction",
	Peers:  true,
	Run:    freezeUnderLoad,
}

func freezeUnderLoad(ctx context.Context, h *harness.Harness) error {
	jobs := harness.Size(h, 10_000, 1_500)
	freezes := harness.Size(h, 20, 4)
	if h.System.Slow > 0 {
		freezes = harness.Size(h, 4, 1) // a freeze takes a minute
	}
	if err := h.InstallBusiness(ctx); err != nil {
		return err
	}
	crew, err := h.MixedCrew(4, func(place int) child.Work {
		return child.Work{
			// The last one settles before the work, so it keeps its jobs while it is frozen. The
			// first two are Detached: otherwise the end of their contexts would roll back before
			// they come late.
			Worker:  peer.Worker{Concurrency: 8, Lease: leaseOfFrozen, Detached: place < 2, SettleFirst: place == 3},
			Handler: "inTx",
			Least:   50 * time.Millisecond, // 32 handlers run some 180 jobs a second
			Most:    300 * time.Millisecond,
		}
	})
	if err != nil {
		return err
	}
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Kind: peer.InTx, Jobs: jobs, Batch: 50})
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, time.Second); err != nil {
		return err
	}
	for _, strike := range seed.Strikes(h.Source("freezes"), freezes, 4, 100*time.Millisecond, 500*time.Millisecond) {
		if err := h.Sleep(ctx, strike.After); err != nil {
			return err
		}
		if err := freezeUntilRerun(ctx, h, crew, strike); err != nil {
			return err
		}
	}
	h.Logf("%d freezes done", freezes)
	if err := h.Drain(ctx, enqueuer); err != nil {
		return err
	}
	if err := crew.Stop(); err != nil {
		return err
	}
	return auditBusiness(ctx, h, jobs)
}

// freezeUntilRerun freezes a worker until other workers have run the jobs again that it had
// started, or may have.
func freezeUntilRerun(ctx context.Context, h *harness.Harness, crew *harness.Crew, strike seed.Strike) error {
	frozen, err := crew.Freeze(ctx, strike.Victim)
	if err != nil {
		return err
	}
	enough := frozen.At.Add(2*leaseOfFrozen + h.System.Slow)
	err = h.WaitUntil(ctx, time.Until(enough)+time.Minute, func() (bool, error) {
		again, err := allRunAgain(ctx, h, frozen)
		return again || time.Now().After(enough), err
	})
	if err != nil {
		return err
	}
	// The draw decides when, during the second run, the first one goes on.
	if err := h.Sleep(ctx, time.Duration(strike.Draw%uint64(300*time.Millisecond))); err != nil {
		return err
	}
	return crew.At(strike.Victim).Thaw()
}

// allRunAgain reports whether other workers have started all jobs that the frozen worker held.
func allRunAgain(ctx context.Context, h *harness.Harness, frozen audit.Fault) (bool, error) {
	starts, err := h.Ledger.StartsSince(ctx, frozen.At)
	if err != nil {
		return false, err
	}
	attempt := make(map[int]int)
	for _, s := range starts {
		attempt[s.Number] = max(attempt[s.Number], s.Attempt)
	}
	for _, held := range frozen.Held {
		if attempt[held.Number] <= held.Attempt {
			return false, nil
		}
	}
	return true, nil
}

// auditBusiness audits with the business rows as effects.
func auditBusiness(ctx context.Context, h *harness.Harness, jobs int) error {
	book, err := h.Ledger.Read(ctx)
	if err != nil {
		return err
	}
	if book.Effects, err = h.Business(ctx); err != nil {
		return err
	}
	f, err := h.AuditBook(ctx, book)
	if err != nil {
		return err
	}
	if f.Acked != jobs {
		return fmt.Errorf("%d jobs were acknowledged, not %d", f.Acked, jobs)
	}
	h.CheckDuplicates(f)
	h.Row.RecoveryMS = -1
	h.Row.Note("leases of %v; one of the four workers settles before the work (SettleFirst); two ignore that their contexts end", leaseOfFrozen)
	return checkBusiness(ctx, h, jobs)
}
