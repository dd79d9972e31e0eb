// Package audit compares the acknowledged enqueues with what the ledger and the system's own table
// say about these jobs.
package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// Fault is something that was done to the system.
type Fault struct {
	What string
	At   time.Time // when it began
	// Until is when the fault was over, for example when a server could be connected to again. It
	// is zero for the end of a process.
	Until time.Time
	// Worker is the process that the fault struck; "" means all.
	Worker string
	// Held are the jobs that ran there, as the table said right after the process had ended and the
	// server had finished its statements. They were in flight, finished but not settled, or
	// prefetched.
	Held []peer.Job
	// Looked is when Held was read, for a process that was frozen. It is zero for a process that
	// has ended, because such a process starts nothing more.
	Looked time.Time
}

// Evidence is what an audit examines.
type Evidence struct {
	Book   ledger.Book
	Jobs   []peer.Job // all jobs in the table
	Faults []Fault    // in their order
	// MayLose are the jobs, by number, that a standby had not received when it was promoted.
	MayLose map[int]bool
	// Unknown are the jobs of calls that failed, so nobody knows whether they were written. If such
	// a job was written and done, and done jobs are not kept, only its effect is left.
	Unknown map[int]bool
}

// Finding is the result of an audit.
type Finding struct {
	Acked int
	Lost  []Loss // acknowledged, but without an end or an effect
	// Open are the acknowledged jobs that still waited or ran when the scenario ended. They are
	// late, and not lost.
	Open []Loss
	// Missed are the acknowledged jobs that were lost and are in MayLose.
	Missed []Loss
	Ghosts []int // jobs that had an effect, but were not acknowledged and are not in the table
	// Dup is the number of extra starts. Bound is how many jobs had been started and not settled
	// when their process, or the server, was struck: faults can explain no more than these.
	// Unexplained are the extra starts of other jobs.
	Dup         int
	Bound       int
	Unexplained []ledger.Entry
	// Repeated is the number of effects beyond the first of each job.
	Repeated int
	Dead     int
	// Rerun is the longest time from the end of a process until a job that it held was started
	// again; Slowest is that job. Again is the same for jobs in their fourth attempt or later,
	// which errand on PostgreSQL may leave for three more leases.
	Rerun   time.Duration
	Slowest int
	Again   time.Duration
}

// Loss is a job that was lost.
type Loss struct {
	Number int
	Why    string
}

func (l Loss) String() string { return fmt.Sprintf("%d: %s", l.Number, l.Why) }

// Audit examines the evidence.
func Audit(e Evidence) Finding {
	c := newCase(e)
	f := Finding{Acked: len(e.Book.Acked)}
	f.Lost, f.Open, f.Missed = c.lost()
	f.Ghosts = c.ghosts()
	open := c.open()
	f.Bound = len(open)
	for number, starts := range c.starts {
		f.Dup += len(starts) - 1
		for i := 1; i < len(starts); i++ {
			if !open[run{number, i - 1}] {
				f.Unexplained = append(f.Unexplained, starts[i])
			}
		}
	}
	slices.SortFunc(f.Unexplained, func(a, b ledger.Entry) int { return a.At.Compare(b.At) })
	for _, effects := range c.effects {
		f.Repeated += len(effects) - 1
	}
	for _, j := range e.Jobs {
		if j.State == peer.GivenUp {
			f.Dead++
		}
	}
	c.rerun(&f)
	return f
}

// dossier is the evidence, by the number of the job.
type dossier struct {
	Evidence
	jobs    map[int]peer.Job
	starts  map[int][]ledger.Entry // in the order of their attempts
	effects map[int][]ledger.Entry
}

func newCase(e Evidence) *dossier {
	c := &dossier{Evidence: e, jobs: make(map[int]peer.Job), starts: byNumber(e.Book.Starts), effects: byNumber(e.Book.Effects)}
	for _, j := range e.Jobs {
		c.jobs[j.Number] = j
	}
	return c
}

func byNumber(entries []ledger.Entry) map[int][]ledger.Entry {
	by := make(map[int][]ledger.Entry)
	for _, e := range entries {
		by[e.Number] = append(by[e.Number], e)
	}
	for _, of := range by {
		slices.SortStableFunc(of, func(a, b ledger.Entry) int { return cmp.Compare(a.Attempt, b.Attempt) })
	}
	return by
}

// lost sorts the acknowledged jobs without an effect and without a reason for their death: open
// ones still wait or run, missed ones are in MayLose, and the others are lost.
func (c *dossier) lost() (lost, open, missed []Loss) {
	for _, number := range slices.Sorted(maps.Keys(c.Book.Acked)) {
		job, there := c.jobs[number]
		why := c.lossOf(number)
		switch {
		case there && job.State.Open():
			open = append(open, Loss{number, why})
		case why != "" && c.MayLose[number] && !there:
			missed = append(missed, Loss{number, why})
		case why != "":
			lost = append(lost, Loss{number, why})
		}
	}
	return lost, open, missed
}

func (c *dossier) lossOf(number int) (why string) {
	job, there := c.jobs[number]
	effects := len(c.effects[number])
	switch {
	case !there && effects == 0:
		return "neither in the table nor in the ledger"
	case !there:
		return "" // it was done, and done jobs are not kept
	case job.State.Open():
		return fmt.Sprintf("still %s after attempt %d", job.State, job.Attempt)
	case job.State == peer.Ended && effects == 0:
		return "done, says the table, but it had no effect"
	case job.State == peer.GivenUp && job.Reason == "" && effects == 0:
		return "dead without a reason"
	}
	return ""
}

func (c *dossier) ghosts() (numbers []int) {
	for number := range c.effects {
		_, acked := c.Book.Acked[number]
		if _, there := c.jobs[number]; !acked && !there && !c.MayLose[number] && !c.Unknown[number] {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}
