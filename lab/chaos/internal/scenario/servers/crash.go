package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

var crash = scenario.Scenario{
	Number: 10,
	Name:   "crash",
	What:   "the server, or one of its sessions, is killed with SIGKILL under load, and recovers; in between the server is paused, as docker pause does",
	Run:    crashServer,
}

func crashServer(ctx context.Context, h *harness.Harness) error {
	const lease = 2 * time.Second
	resume := harness.Size(h, 10*time.Second, 5*time.Second)
	crew, enqueuer, err := scenario.Load(h, lease)
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, 6*time.Second, 3*time.Second)); err != nil {
		return err
	}
	strikes := seed.Strikes(h.Source("crashes"), harness.Size(h, 25, 3), 2, harness.Size(h, 5*time.Second, 3*time.Second), harness.Size(h, 8*time.Second, 4*time.Second))
	pauses := harness.Size(h, 5, 1)
	var faults []audit.Fault
	for i, strike := range strikes {
		if err := h.Sleep(ctx, strike.After); err != nil {
			return err
		}
		how := CrashOnce
		if i%(len(strikes)/pauses) == 1 {
			how = pauseOnce
		}
		f, err := how(ctx, h, strike)
		if err != nil {
			return err
		}
		faults = append(faults, f)
	}
	if err := h.Sleep(ctx, resume); err != nil {
		return err
	}
	f, book, err := scenario.Finish(ctx, h, crew, enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	checkResumed(h, book.Starts, crew.Names(), faults, resume)
	h.Row.Note("leases of %v; of the faults %d were pauses, of up to %v", lease, pauses, longestPause)
	return nil
}

// CrashOnce kills the whole server and starts it again within two seconds, or kills one session,
// after which the server restarts by itself.
func CrashOnce(ctx context.Context, h *harness.Harness, strike seed.Strike) (audit.Fault, error) {
	if strike.Victim == 0 {
		return outage(ctx, h, "session killed", func() error { return h.Server.KillSession(ctx, harness.Database, strike.Draw) })
	}
	return outage(ctx, h, "server killed", func() error {
		if err := h.Server.Kill(); err != nil {
			return err
		}
		if err := h.Sleep(ctx, time.Duration(strike.Draw%uint64(2*time.Second))); err != nil {
			return err
		}
		return h.Server.Start(ctx)
	})
}

// longestPause is longer than the leases, and shorter than errand's timeout of a claim.
const longestPause = 7 * time.Second

// pauseOnce pauses the server, for a second at least, and lets it run again.
func pauseOnce(ctx context.Context, h *harness.Harness, strike seed.Strike) (audit.Fault, error) {
	return outage(ctx, h, "server paused", func() error {
		if err := h.Server.Pause(); err != nil {
			return err
		}
		slept := h.Sleep(ctx, time.Second+time.Duration(strike.Draw%uint64(longestPause-time.Second)))
		return errors.Join(slept, h.Server.Resume())
	})
}

// outage records a fault: how begins it, and it ends when the processes can reach the database
// again.
func outage(ctx context.Context, h *harness.Harness, what string, how func() error) (f audit.Fault, err error) {
	f = audit.Fault{What: what, At: time.Now()}
	if err := how(); err != nil {
		return f, err
	}
	err = h.Reachable(ctx)
	f.Until = time.Now()
	h.RecordFault(f)
	h.Logf("%s, away for %.1f s", f.What, f.Until.Sub(f.At).Seconds())
	return f, err
}

// checkResumed demands that every worker has started jobs again after the last fault. It notes the
// longest time that a worker took after any fault.
func checkResumed(h *harness.Harness, starts []ledger.Entry, workers []string, faults []audit.Fault, within time.Duration) {
	var slowest time.Duration
	var wedged []string
	for i, f := range faults {
		for _, w := range workers {
			at, ok := firstStart(starts, w, f.Until)
			last := i == len(faults)-1
			switch {
			case last && (!ok || at.Sub(f.Until) > within):
				wedged = append(wedged, w)
			case ok && (last || at.Before(faults[i+1].At)):
				slowest = max(slowest, at.Sub(f.Until))
			case !last:
				wedged = append(wedged, fmt.Sprintf("%s until the next crash", w))
			}
		}
	}
	h.Row.CheckTime(len(wedged) == 0, fmt.Sprintf("workers that do not start jobs again, within %v: 0", within), "%s; the slowest took %.1f s", harness.FirstFew(wedged), slowest.Seconds())
}

func firstStart(starts []ledger.Entry, worker string, after time.Time) (time.Time, bool) {
	for _, s := range starts {
		if s.Worker == worker && !s.At.Before(after) {
			return s.At, true
		}
	}
	return time.Time{}, false
}
