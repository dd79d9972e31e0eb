// Package audit compares what was promised, the acknowledged enqueues, with what
// the ledger and the system's own table say became of it.
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
	// Until is when what it took away was there again: a server can be connected to.
	// Zero for a process, which does not come back.
	Until time.Time
	// Worker is the process that was struck; "" means that all were concerned.
	Worker string
	// Held is what the table said was running there, right after the process had ended and all that
	// it had asked for was done: what was in flight, finished but not settled, or claimed ahead.
	Held []peer.Job
	// Looked is when that was read, of a process that was frozen; zero of one that has ended, and
	// starts nothing more.
	Looked time.Time
}

// Evidence is what there is to go by when all is over.
type Evidence struct {
	Book   ledger.Book
	Jobs   []peer.Job // all that are in the table
	Faults []Fault    // in their order
	// Gone are the jobs that a standby had not received when it was promoted, by number.
	MayLose map[int]bool
	// Unknown are jobs of which nobody was told whether they were written: if they were, and have
	// ended and are not kept, nothing but their effect is left.
	Unknown map[int]bool
}

// Finding is what comes of it.
type Finding struct {
	Acked int
	Lost  []Loss // acknowledged, and gone without an end or an effect
	// Open are the acknowledged jobs that still waited or ran when the scenario ended: late, but
	// not lost.
	Open []Loss
	// Missed are the acknowledged jobs that were lost because they are gone.
	Missed []Loss
	Ghosts []int // jobs with an effect that were neither acknowledged nor are in the table
	// Dup is the number of extra starts; Bound is how many jobs had been started and
	// not settled when their process, or the server, was struck: no fault can be the reason
	// for more. Unexplained are extra starts of jobs that were not among these.
	Dup         int
	Bound       int
	Unexplained []ledger.Entry
	// Repeated is the number of effects beyond the first of each job.
	Repeated int
	Dead     int
	// Rerun is the longest time from the end of a process until a job that it held, Slowest,
	// was started again; Again is the same of jobs in their fourth attempt or a later one, which
	// errand on PostgreSQL may leave for three leases more.
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

// Audit audits.
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

// dossier is the evidence by number of job.
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

// lost lists the acknowledged jobs that have neither had their effect nor been given up with a
// reason; open those of them that still wait or run, missed those that a standby had not received.
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
		return "" // it was done, and is not kept
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
