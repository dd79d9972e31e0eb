package servers

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
	"github.com/errandhq/errand/lab/chaos/internal/server"
)

var standby = scenario.Scenario{
	Number: 13,
	Name:   "standby",
	What:   "the primary is killed with SIGKILL under load, and its streaming standby, which lags behind, is promoted; asynchronous",
	Run:    func(ctx context.Context, h *harness.Harness) error { return failOver(ctx, h, false) },
}

var synchronous = scenario.Scenario{
	Number: 13,
	Name:   "synchronous",
	What:   "the primary is killed with SIGKILL under load, and its streaming standby, which lags behind, is promoted; synchronous",
	Run:    func(ctx context.Context, h *harness.Harness) error { return failOver(ctx, h, true) },
}

// failover is the end of one primary, and what it had.
type failover struct {
	fault   audit.Fault  // lasts until the standby accepts writes
	held    time.Time    // when the standby stopped receiving
	killed  time.Time    // when the primary was killed
	there   map[int]bool // the jobs that the standby had, right after its promotion
	bytes   int64        // of WAL that the standby had not received
	missing []int        // jobs that only the primary had
}

func failOver(ctx context.Context, h *harness.Harness, sync bool) error {
	const lease, within = 3 * time.Second, 30 * time.Second
	next, err := startStandby(ctx, h, "", sync)
	if err != nil {
		return err
	}
	defer func() { _ = h.Server.Close() }() // the last server; the runner closes the first
	pair := server.PairRoute(h.Server, next)
	h.Route = func(_, dsn string) (string, error) { return pair(dsn) }
	crew, enqueuer, err := scenario.Load(h, lease)
	if err != nil {
		return err
	}
	done, err := failOvers(ctx, h, next, sync)
	if err != nil {
		return err
	}
	f, book, err := scenario.Finish(ctx, h, crew, enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	checkGap(h, f, book, done, sync)
	faults := make([]audit.Fault, len(done))
	for i, d := range done {
		faults[i] = d.fault
	}
	checkResumed(h, book.Starts, crew.Names(), faults, within)
	h.Row.Note("leases of %v", lease)
	return nil
}

// startStandby makes a standby of the system's server.
func startStandby(ctx context.Context, h *harness.Harness, port string, sync bool) (*server.Postgres, error) {
	next, err := h.Server.Standby(ctx, h.Row.Scenario+"-next"+port, port)
	if err == nil && sync {
		err = h.Server.Synchronous(ctx)
	}
	return next, err
}

// failOvers kills primary after primary. The next standby takes the port of the killed one.
func failOvers(ctx context.Context, h *harness.Harness, next *server.Postgres, sync bool) (done []failover, err error) {
	least, most := harness.Size(h, 8*time.Second, 2500*time.Millisecond), harness.Size(h, 12*time.Second, 3*time.Second)
	strikes := seed.Strikes(h.Source("failovers"), harness.Size(h, 5, 1), 1, least, most)
	for i, strike := range strikes {
		if err := h.Sleep(ctx, strike.After); err != nil {
			return done, err
		}
		old, port := h.Server, h.Server.Port()
		hold := 500*time.Millisecond + time.Duration(strike.Draw%uint64(harness.Size(h, 4*time.Second, time.Second)))
		f, received, err := failOverOnce(ctx, h, next, hold)
		if err != nil {
			return done, err
		}
		if err := h.Sleep(ctx, harness.Size(h, 10*time.Second, 2*time.Second)); err != nil {
			return done, err
		}
		if err := examine(ctx, h, old, received, &f); err != nil {
			return done, err
		}
		if !sync {
			h.AllowLoss("what the standby had not received", f.missing)
		}
		done = append(done, f)
		h.Logf("failed over within %.1f s; %d jobs and %d bytes of WAL were missing", f.fault.Until.Sub(f.killed).Seconds(), len(f.missing), f.bytes)
		if i < len(strikes)-1 {
			if next, err = startStandby(ctx, h, port, sync); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// failOverOnce stops the standby from receiving for a while, kills the primary, and promotes the
// standby.
func failOverOnce(ctx context.Context, h *harness.Harness, next *server.Postgres, hold time.Duration) (f failover, received string, err error) {
	f.fault = audit.Fault{What: "standby promoted", At: time.Now()} // what was written before this has been received
	if err := next.CatchUp(ctx, h.Server); err != nil {
		return f, "", err
	}
	receiver, err := next.HoldReceiver(ctx)
	if err != nil {
		return f, "", err
	}
	f.held = time.Now()
	if err := h.Sleep(ctx, hold); err != nil {
		return f, "", err
	}
	if err := h.Server.Kill(); err != nil {
		return f, "", err
	}
	f.killed = time.Now()
	if received, err = next.Promote(ctx, receiver); err != nil {
		return f, "", err
	}
	f.fault.Until = time.Now()
	h.RecordFault(f.fault)
	if f.there, err = h.Numbers(ctx, next); err != nil {
		return f, "", err
	}
	return f, received, h.UseServer(ctx, next)
}

// examine starts the old primary, alone, to find what the new one had not received. Then it removes
// the old one.
func examine(ctx context.Context, h *harness.Harness, old *server.Postgres, received string, f *failover) (err error) {
	if f.bytes, err = old.Revive(ctx, received); err != nil {
		return fmt.Errorf("the old primary: %w", err)
	}
	had, err := h.Numbers(ctx, old)
	if err != nil {
		return fmt.Errorf("the old primary: %w", err)
	}
	for number := range had {
		if !f.there[number] {
			f.missing = append(f.missing, number)
		}
	}
	return old.Close()
}

// checkGap demands that only jobs that the standbys had not received are lost. With synchronous
// replication it demands that none is, because such jobs are not acknowledged.
func checkGap(h *harness.Harness, f audit.Finding, book ledger.Book, done []failover, sync bool) {
	gap, meanwhile, bytes := 0, 0, int64(0)
	var held, away time.Duration
	for _, d := range done {
		bytes += d.bytes
		held, away = held+d.killed.Sub(d.held), max(away, d.fault.Until.Sub(d.killed))
		for _, n := range d.missing {
			if _, acked := book.Acked[n]; acked {
				gap++
			}
		}
		for _, at := range book.Acked {
			if at.After(d.held) && at.Before(d.killed) {
				meanwhile++
			}
		}
	}
	if sync {
		h.Row.Check(gap == 0, "acknowledged jobs that a standby had not received: 0", "%d, in %d bytes of WAL", gap, bytes)
	} else {
		h.Row.Check(len(f.Missed) <= gap, "lost ≤ the measured gap", "%d ≤ %d jobs, in %d bytes of WAL", len(f.Missed), gap, bytes)
		h.Row.Check(gap > 0, "a gap", "%d jobs", gap)
	}
	h.Row.Note("the standbys received nothing for %.1f s, in which %d jobs were acknowledged; promoted within %.1f s", held.Seconds(), meanwhile, away.Seconds())
}
