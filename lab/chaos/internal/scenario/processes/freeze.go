package processes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/lab"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/system"
	"github.com/errandhq/errand/queue"
)

var freeze = scenario.Scenario{
	Number: 2,
	Name:   "freeze",
	What:   "a worker is frozen past its lease, a rival runs its jobs again, and it goes on, with every finishing verb",
	Peers:  true,
	Run:    freezeWorkers,
}

const leaseOfFrozen = 2 * time.Second

// perRound is how many jobs a round has: each case, plain and in a transaction.
const perRound = 2 * child.FrozenCases

func freezeWorkers(ctx context.Context, l *lab.Lab) error {
	rounds := lab.Size(l, 20, 2)
	if l.About.Slow > 0 {
		rounds = 1 // it takes minutes, and what late workers change keeps later rounds waiting
	}
	if err := l.InstallBusiness(ctx); err != nil {
		return err
	}
	changed := changes{total: rounds * perRound}
	var err error
	for round := 0; round < rounds && err == nil; round++ {
		err = freezeRound(ctx, l, round, &changed)
	}
	l.Row.Check(len(changed.rows) == 0, "rows changed by those who came late: 0", "%s of %d", lab.Few(changed.rows), changed.total)
	if err != nil {
		return err
	}
	if err := l.Drain(ctx); err != nil {
		return err
	}
	f, book, err := l.Audit(ctx)
	if err != nil {
		return err
	}
	l.Row.RecoveryMS = -1
	l.CheckDuplicates(f)
	l.Row.Check(f.Repeated == 0, "effects of a job that its rival had: one", "%d repeated", f.Repeated)
	l.Row.Note("leases of %v", leaseOfFrozen)
	checkNotes(l, book.Notes, rounds)
	return checkBusiness(ctx, l, rounds*child.FrozenCases)
}

// changes are the rows that the late have changed.
type changes struct {
	rows  []string
	total int
}

// freezeRound freezes one worker with a job of each case.
func freezeRound(ctx context.Context, l *lab.Lab, round int, changed *changes) error {
	if err := enqueueRound(ctx, l, round); err != nil {
		return err
	}
	w := child.Work{Worker: system.Worker{Concurrency: perRound, Lease: leaseOfFrozen, Detached: true}, Handler: "frozen"}
	late, err := l.Worker(fmt.Sprintf("late%d", round+1), w)
	if err != nil {
		return err
	}
	if err := awaitNotes(ctx, l, time.Minute, late.Name, child.Waits); err != nil {
		return err
	}
	if _, err := l.Freeze(ctx, late); err != nil {
		return err
	}
	rival, err := l.Worker(fmt.Sprintf("rival%d", round+1), w)
	if err != nil {
		return err
	}
	if err := l.Until(ctx, time.Minute+2*l.About.Slow, func() (bool, error) { return rivalReady(ctx, l, rival.Name) }); err != nil {
		return fmt.Errorf("the rival does not come to its jobs: %w", err)
	}
	if err := comeLate(ctx, l, late, changed); err != nil {
		return err
	}
	if err := rival.Go(); err != nil {
		return err
	}
	if err := l.Until(ctx, time.Minute, func() (bool, error) { return effectsBy(ctx, l, rival.Name, perRound) }); err != nil {
		return fmt.Errorf("the rival does not finish its jobs: %w", err)
	}
	return scenario.Stop(rival)
}

func enqueueRound(ctx context.Context, l *lab.Lab, round int) error {
	for i, kind := range []system.Kind{system.Plain, system.InTx} {
		numbers := make([]int, child.FrozenCases)
		for n := range numbers {
			numbers[n] = round*perRound + i*child.FrozenCases + n
		}
		if err := l.Enqueue(ctx, kind, numbers...); err != nil {
			return err
		}
	}
	return nil
}

// rivalReady says whether the rival runs all jobs and has finished those that are not slow.
func rivalReady(ctx context.Context, l *lab.Lab, rival string) (bool, error) {
	ready, err := startedBy(ctx, l, rival, perRound)
	if !ready || err != nil {
		return false, err
	}
	running, err := l.System.Jobs(ctx, rival)
	return len(running) == perRound/2, err
}

// comeLate lets the frozen worker go on, to its end, and looks at what that changes.
func comeLate(ctx context.Context, l *lab.Lab, late *child.Process, changed *changes) error {
	before, err := rowsByNumber(ctx, l)
	if err != nil {
		return err
	}
	if err := late.Thaw(); err != nil {
		return err
	}
	if err := awaitNotes(ctx, l, 2*child.Attention, late.Name, child.Returned); err != nil {
		return err
	}
	if err := scenario.Stop(late); err != nil {
		return err
	}
	after, err := rowsByNumber(ctx, l)
	if err != nil {
		return err
	}
	for number, row := range before {
		if after[number] != row {
			c := child.FrozenCaseOf(number)
			changed.rows = append(changed.rows, fmt.Sprintf("job %d, %v, slow rival %v, attentive %v: %s", number, c.Verb, c.Slow, c.Attentive, scenario.Difference(row, after[number])))
		}
	}
	return nil
}

// awaitNotes waits until a worker's handlers have all written a note.
func awaitNotes(ctx context.Context, l *lab.Lab, patience time.Duration, worker, text string) error {
	n := 0
	err := l.Until(ctx, patience, func() (bool, error) {
		book, err := l.Ledger.Read(ctx)
		n = scenario.Count(book.Notes, func(n ledger.Entry) bool { return n.Worker == worker && n.Text == text })
		return n == perRound, err
	})
	if err != nil {
		return fmt.Errorf("%s: %q of %d handlers, not of %d: %w", worker, text, n, perRound, err)
	}
	return nil
}

func rowsByNumber(ctx context.Context, l *lab.Lab) (map[int]string, error) {
	jobs, err := l.System.Jobs(ctx, "")
	rows := make(map[int]string, len(jobs))
	for _, j := range jobs {
		rows[j.Number] = j.Row
	}
	return rows, err
}

func startedBy(ctx context.Context, l *lab.Lab, worker string, n int) (bool, error) {
	book, err := l.Ledger.Read(ctx)
	return scenario.Count(book.Starts, func(s ledger.Entry) bool { return s.Worker == worker }) == n, err
}

func effectsBy(ctx context.Context, l *lab.Lab, worker string, n int) (bool, error) {
	book, err := l.Ledger.Read(ctx)
	return scenario.Count(book.Effects, func(s ledger.Entry) bool { return s.Worker == worker }) == n, err
}

// checkNotes checks what the late handlers saw.
func checkNotes(l *lab.Lab, notes []ledger.Entry, rounds int) {
	late := func(e ledger.Entry) bool { return e.Attempt == 1 && strings.HasPrefix(e.Worker, "late") }
	ended := scenario.Count(notes, func(e ledger.Entry) bool { return late(e) && strings.HasPrefix(e.Text, child.ContextEnded) })
	l.Row.Check(ended == rounds*perRound/2, "contexts that ended, of the handlers that wait for it: all", "%d of %d", ended, rounds*perRound/2)
	if l.About.Slow > 0 {
		return // it has no word for a job that is lost
	}
	withCause := scenario.Count(notes, func(e ledger.Entry) bool { return late(e) && e.Text == child.ContextEnded+queue.ErrLost.Error() })
	l.Row.Check(withCause == ended, "with the cause ErrLost: all", "%d of %d", withCause, ended)
	lost := make(map[int]bool)
	for _, e := range notes {
		if late(e) && e.Text == child.Lost {
			lost[e.Number] = true
		}
	}
	l.Row.Check(len(lost) == rounds*perRound, "jobs that Extend or Settle told the late worker are lost: all", "%d of %d", len(lost), rounds*perRound)
}

// checkBusiness demands that each of so many jobs has one row of the application's.
func checkBusiness(ctx context.Context, l *lab.Lab, jobs int) error {
	rows, err := l.Business(ctx)
	if err != nil {
		return err
	}
	of := make(map[int]int)
	for _, r := range rows {
		of[r.Number]++
	}
	repeated := 0
	for _, n := range of {
		repeated += n - 1
	}
	l.Row.Check(len(of) == jobs && repeated == 0, "business rows of a job that is settled in their transaction: exactly one",
		"%d of %d jobs have one, %d more than that", len(of), jobs, repeated)
	return nil
}
