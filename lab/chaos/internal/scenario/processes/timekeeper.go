package processes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
)

// timekeeper compares the times at which jobs were due with those at which they started. All times
// are by the servers' clock, which is this machine's and this process's.
type timekeeper struct {
	harness *harness.Harness
	book    ledger.Book
	finding audit.Finding
	own     map[int]time.Time // when this process's own jobs are due
	due     map[int]time.Time // when each job was last due, as the table has it

	starts map[int][]ledger.Entry // of each job, in order
	asked  map[int]time.Time      // the time just before a job was enqueued
	failed map[run]time.Time
	held   map[run]bool // runs that a killed process held
}

// punctual is how late a start may be. There are more handlers than work.
const punctual = 3 * time.Second

func (k *timekeeper) readDue(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, k.harness.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	k.due = make(map[int]time.Time)
	rows, _ := conn.Query(ctx, `SELECT (payload ->> 'number')::bigint, scheduled_at FROM errand.jobs`) // ForEachRow returns the error, too
	var number int
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&number, &at}, func() error {
		k.due[number] = at
		return nil
	})
	return err
}

// gather sorts the entries of the book by job.
func (k *timekeeper) gather() {
	k.starts, k.asked = make(map[int][]ledger.Entry), make(map[int]time.Time)
	k.failed, k.held = make(map[run]time.Time), make(map[run]bool)
	for _, s := range k.book.Starts {
		k.starts[s.Number] = append(k.starts[s.Number], s)
	}
	for _, n := range k.book.Notes {
		switch n.Text {
		case child.Asked:
			for i := range n.Attempt {
				k.asked[n.Number+i] = n.At
			}
		case child.Erred:
			k.failed[run{n.Number, n.Attempt}] = n.At
		}
	}
	for _, f := range k.harness.Faults() {
		for _, h := range f.Held {
			k.held[run{h.Number, h.Attempt}] = true
		}
	}
}

// checkClocks demands that each process has noted a time that is off by its shift.
func (k *timekeeper) checkClocks() {
	const tolerance = 5 * time.Second
	var wrong []string
	told := 0
	for _, n := range k.book.Notes {
		text, ok := strings.CutPrefix(n.Text, child.ClockSays)
		if !ok {
			continue
		}
		told++
		says, err := time.Parse(time.RFC3339Nano, text)
		if off := says.Sub(n.At); err != nil || (off-k.shift(n.Worker)).Abs() > tolerance {
			wrong = append(wrong, fmt.Sprintf("%s by %v", n.Worker, off))
		}
	}
	want := 2*len(shifts) + len(k.harness.Faults())
	k.harness.Row.Check(len(wrong) == 0 && told == want, fmt.Sprintf("processes whose clocks are off by as much as they should be: %d", want), "%d of %d; wrong: %s",
		told-len(wrong), told, harness.FirstFew(wrong))
}

// placeOf returns the place of a process: the number in its name.
func placeOf(name string) (place int) {
	_, _ = fmt.Sscanf(name[1:], "%d", &place) // a failure leaves 0, which is no place
	return place - 1
}

func (k *timekeeper) shift(name string) time.Duration { return shifts[placeOf(name)] }

// early lists the starts that were too early: before a job's delay was over, before a failed job's
// retry was due, or before the time in the table.
func (k *timekeeper) early() (list []string) {
	for number, starts := range k.starts {
		for i, s := range starts {
			least := k.soonest(s)
			if i == len(starts)-1 && k.due[number].After(least) {
				least = k.due[number]
			}
			if s.At.Before(least) {
				list = append(list, fmt.Sprintf("job %d, attempt %d on %s, by %.3f s", number, s.Attempt, s.Worker, least.Sub(s.At).Seconds()))
			}
		}
	}
	return list
}

// soonest returns the earliest time at which a run can have been due, as the ledger has it.
func (k *timekeeper) soonest(s ledger.Entry) time.Time {
	before := run{s.Number, s.Attempt - 1}
	if failed, ok := k.failed[before]; ok && !k.held[before] {
		least, _ := k.retry(before)
		return failed.Add(least)
	}
	if at, ok := k.own[s.Number]; ok {
		return at
	}
	return k.asked[s.Number].Add(later.Delay(k.harness.Seed, s.Number))
}

// latest returns the latest time at which a run can have been due. ok is false if that depends on a
// process that was killed.
func (k *timekeeper) latest(s ledger.Entry) (at time.Time, ok bool) {
	before := run{s.Number, s.Attempt - 1}
	if k.held[before] {
		return at, false
	}
	if failed, ok := k.failed[before]; ok {
		_, most := k.retry(before)
		return failed.Add(most), true
	}
	if at, ok := k.own[s.Number]; ok {
		return at, true
	}
	acked, ok := k.book.Acked[s.Number]
	return acked.Add(later.Delay(k.harness.Seed, s.Number)), ok && s.Attempt == 1
}

// retry returns how long a failed run had to wait before its retry.
func (k *timekeeper) retry(r run) (least, most time.Duration) {
	for _, s := range k.starts[r.number] {
		if d := retryAfter(k.harness, placeOf(s.Worker)); s.Attempt == r.attempt && d > 0 {
			return d, d
		}
	}
	const half = 30 * time.Second // see queue.Backoff
	return half, half + half*3/10
}

func (k *timekeeper) late() (list []string) {
	for number, starts := range k.starts {
		for _, s := range starts {
			if at, ok := k.latest(s); ok && s.At.After(at.Add(punctual)) {
				list = append(list, fmt.Sprintf("job %d, attempt %d on %s, by %.1f s", number, s.Attempt, s.Worker, s.At.Sub(at).Seconds()))
			}
		}
	}
	return list
}

// falseReclaims lists the starts that nothing explains. It also counts the retries.
func (k *timekeeper) falseReclaims() (list []string, retries int) {
	for number, starts := range k.starts {
		for i, s := range starts[1:] {
			before := run{number, starts[i].Attempt}
			switch _, failed := k.failed[before]; {
			case failed:
				retries++
			case !k.held[before]:
				list = append(list, fmt.Sprintf("job %d, attempt %d on %s after %s", number, s.Attempt, s.Worker, starts[i].Worker))
			}
		}
	}
	return list, retries
}

// lost counts how often a worker was told that it had lost a job, unless it had ended the job
// itself. After that an extension may say so, because the worker's own settle was faster.
func (k *timekeeper) lost() (n int) {
	runOf := func(e ledger.Entry) ledger.Entry {
		return ledger.Entry{Number: e.Number, Attempt: e.Attempt, Worker: e.Worker}
	}
	finished := make(map[ledger.Entry]bool)
	for _, e := range k.book.Effects {
		finished[runOf(e)] = true
	}
	for _, note := range k.book.Notes {
		if note.Text == child.Erred {
			finished[runOf(note)] = true
		}
	}
	for _, note := range k.book.Notes {
		if note.Text == child.Lost && !finished[runOf(note)] {
			n++
		}
	}
	return n
}

// checkCovered demands that the other criteria had something to check: in each place runs that
// outlasted their leases, and retried and delayed jobs.
func (k *timekeeper) checkCovered(retries int) {
	ended := make(map[run]time.Time)
	for _, e := range k.book.Effects {
		ended[run{e.Number, e.Attempt}] = e.At
	}
	long := make([]int, len(shifts))
	delayed := 0
	for number, starts := range k.starts {
		if k.due[number].Sub(k.asked[number]) >= later.Least {
			delayed++
		}
		for _, s := range starts {
			if ended[run{number, s.Attempt}].Sub(s.At) > leaseOfShifted {
				long[placeOf(s.Worker)]++
			}
		}
	}
	k.harness.Row.Check(slices.Min(long) > 0 && retries > 0 && delayed > 0, "runs beyond the lease by each clock, retries, jobs that were due later: some",
		"%v, %d, %d", long, retries, delayed)
}

// run is one run of a job.
type run struct{ number, attempt int }
