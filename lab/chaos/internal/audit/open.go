package audit

import (
	"slices"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// run is one run of a job: its index among the job's starts. The attempt would not do, because a
// released job runs again with the same one.
type run struct{ number, start int }

// open are the runs that a fault found started and not settled.
type open map[run]bool

// open collects the runs that the faults found open. A run that several faults found counts once,
// because it can be repeated only once.
func (c *dossier) open() open {
	o := make(open)
	for _, f := range c.Faults {
		for _, held := range f.Held {
			if i, ok := c.startOf(f, held); ok {
				o[run{held.Number, i}] = true
			}
		}
	}
	for number, starts := range c.starts {
		for i, s := range starts {
			until := c.settled(number)
			if i+1 < len(starts) {
				until = starts[i+1].At
			}
			if c.openWhile(s, until) {
				o[run{number, i}] = true
			}
		}
	}
	return o
}

// startOf finds the start of a job that a struck process held. If it started the job several times
// with the same attempt, it is the last start before the table was read. ok is false if it never
// started the job.
func (c *dossier) startOf(f Fault, held peer.Job) (start int, ok bool) {
	for i, s := range c.starts[held.Number] {
		if s.Attempt == held.Attempt && s.Worker == f.Worker && (!ok || f.Looked.IsZero() || s.At.Before(f.Looked)) {
			start, ok = i, true
		}
	}
	return start, ok
}

// openWhile reports whether a run was open during a fault of the server: it started before the
// fault was over, and was not settled before the fault began.
func (c *dossier) openWhile(s ledger.Entry, until time.Time) bool {
	return slices.ContainsFunc(c.Faults, func(f Fault) bool { return f.Worker == "" && s.At.Before(f.Until) && !until.Before(f.At) })
}

// never is later than all other times.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// settled returns when a job ended.
func (c *dossier) settled(number int) time.Time {
	job, there := c.jobs[number]
	effects := c.effects[number]
	switch {
	case job.State == peer.Ended || job.State == peer.GivenUp:
		return job.EndedAt
	case !there && len(effects) > 0: // done, and not kept: its effect is the last sign of it
		return effects[len(effects)-1].At
	}
	return never
}

// rerun finds the longest time that a job of a struck process has waited until it started again, or
// until the next struck process held it.
func (c *dossier) rerun(f *Finding) {
	const fourth = 4
	for i, fault := range c.Faults {
		if fault.Worker == "" {
			continue
		}
		for _, held := range fault.Held {
			next, ok := c.next(i, held)
			took := next.Sub(fault.At)
			switch {
			case !ok:
			case held.Attempt >= fourth:
				f.Again = max(f.Again, took)
			case took > f.Rerun:
				f.Rerun, f.Slowest = took, held.Number
			}
		}
	}
}

// next returns when another process had a job that fault i found. ok is false if none ever had,
// because the job had been settled or is lost.
func (c *dossier) next(i int, held peer.Job) (at time.Time, ok bool) {
	for _, s := range c.starts[held.Number] {
		if s.Attempt > held.Attempt {
			at, ok = s.At, true
			break
		}
	}
	for _, later := range c.Faults[i+1:] {
		for _, h := range later.Held {
			if h.Number == held.Number && h.Attempt > held.Attempt && (!ok || later.At.Before(at)) {
				return later.At, true
			}
		}
	}
	return at, ok
}
