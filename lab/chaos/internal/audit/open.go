package audit

import (
	"slices"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// run is one run of a job: where it is among the job's starts. Its attempt does not tell it from
// all others, as a job that was given back runs again with the same.
type run struct{ number, start int }

// open are the runs that a fault found open: started, and not settled.
type open map[run]bool

// open gathers what the faults found open. A run that several have found open can be
// run again only once for it.
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

// startOf is for a process that was struck: the table told what it held, and the ledger whether it
// had started that, or did when it went on. Of several starts with the attempt it is the last that
// there was when the table told.
func (c *dossier) startOf(f Fault, held peer.Job) (start int, ok bool) {
	for i, s := range c.starts[held.Number] {
		if s.Attempt == held.Attempt && s.Worker == f.Worker && (!ok || f.Looked.IsZero() || s.At.Before(f.Looked)) {
			start, ok = i, true
		}
	}
	return start, ok
}

// openWhile is for the server: what had been started by the time it was there again,
// and had not been settled by the time it was struck.
func (c *dossier) openWhile(s ledger.Entry, until time.Time) bool {
	return slices.ContainsFunc(c.Faults, func(f Fault) bool { return f.Worker == "" && s.At.Before(f.Until) && !until.Before(f.At) })
}

// never is after everything.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// settled is when a job ended.
func (c *dossier) settled(number int) time.Time {
	job, there := c.jobs[number]
	effects := c.effects[number]
	switch {
	case job.State == peer.Ended || job.State == peer.GivenUp:
		return job.EndedAt
	case !there && len(effects) > 0: // done, and not kept: the effect is the last that was seen of it
		return effects[len(effects)-1].At
	}
	return never
}

// rerun finds the longest that a job which a process held when it was struck has waited
// for its next start, or for being held by the next process that was struck.
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

// next is when a job that fault i found was in other hands; ok is false if it never
// was, because it had been settled after all or is lost.
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
