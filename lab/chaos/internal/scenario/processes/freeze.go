package processes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
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

// perRound is the number of jobs of a round: each case, plain and in a transaction.
const perRound = 2 * child.FrozenCases

func freezeWorkers(ctx context.Context, h *harness.Harness) error {
	rounds := harness.Size(h, 20, 2)
	if h.System.Slow > 0 {
		rounds = 1 // a round takes minutes, and what late workers change delays later rounds
	}
	if err := h.InstallBusiness(ctx); err != nil {
		return err
	}
	changed := changes{total: rounds * perRound}
	var err error
	for round := 0; round < rounds && err == nil; round++ {
		err = freezeRound(ctx, h, round, &changed)
	}
	h.Row.Check(len(changed.rows) == 0, "rows changed by those who came late: 0", "%s of %d", harness.FirstFew(changed.rows), changed.total)
	if err != nil {
		return err
	}
	if err := h.Drain(ctx); err != nil {
		return err
	}
	f, book, err := h.Audit(ctx)
	if err != nil {
		return err
	}
	h.Row.RecoveryMS = -1
	h.CheckDuplicates(f)
	h.Row.Check(f.Repeated == 0, "effects of a job that its rival had: one", "%d repeated", f.Repeated)
	h.Row.Note("leases of %v", leaseOfFrozen)
	checkNotes(h, book.Notes, rounds)
	return checkBusiness(ctx, h, rounds*child.FrozenCases)
}

// changes are the rows that late workers have changed.
type changes struct {
	rows  []string
	total int
}

// freezeRound freezes one worker that runs a job of each case.
func freezeRound(ctx context.Context, h *harness.Harness, round int, changed *changes) error {
	if err := enqueueRound(ctx, h, round); err != nil {
		return err
	}
	w := child.Work{Worker: peer.Worker{Concurrency: perRound, Lease: leaseOfFrozen, Detached: true}, Handler: "frozen"}
	late, err := h.Worker(fmt.Sprintf("late%d", round+1), w)
	if err != nil {
		return err
	}
	if err := awaitNotes(ctx, h, time.Minute, late.Name, child.Waits); err != nil {
		return err
	}
	if _, err := h.Freeze(ctx, late); err != nil {
		return err
	}
	rival, err := h.Worker(fmt.Sprintf("rival%d", round+1), w)
	if err != nil {
		return err
	}
	if err := h.WaitUntil(ctx, time.Minute+2*h.System.Slow, func() (bool, error) { return rivalReady(ctx, h, rival.Name) }); err != nil {
		return fmt.Errorf("the rival does not come to its jobs: %w", err)
	}
	if err := thawLate(ctx, h, late, changed); err != nil {
		return err
	}
	if err := rival.Go(); err != nil {
		return err
	}
	if err := h.WaitUntil(ctx, time.Minute, func() (bool, error) { return effectsBy(ctx, h, rival.Name, perRound) }); err != nil {
		return fmt.Errorf("the rival does not finish its jobs: %w", err)
	}
	return scenario.Stop(rival)
}

func enqueueRound(ctx context.Context, h *harness.Harness, round int) error {
	for i, kind := range []peer.Kind{peer.Plain, peer.InTx} {
		numbers := make([]int, child.FrozenCases)
		for n := range numbers {
			numbers[n] = round*perRound + i*child.FrozenCases + n
		}
		if err := h.Enqueue(ctx, kind, numbers...); err != nil {
			return err
		}
	}
	return nil
}

// rivalReady reports whether the rival runs all jobs and has finished those that are not slow.
func rivalReady(ctx context.Context, h *harness.Harness, rival string) (bool, error) {
	ready, err := startedBy(ctx, h, rival, perRound)
	if !ready || err != nil {
		return false, err
	}
	running, err := h.Peer.Jobs(ctx, rival)
	return len(running) == perRound/2, err
}

// thawLate lets the frozen worker run to its end, and compares the rows before and after.
func thawLate(ctx context.Context, h *harness.Harness, late *child.Process, changed *changes) error {
	before, err := rowsByNumber(ctx, h)
	if err != nil {
		return err
	}
	if err := late.Thaw(); err != nil {
		return err
	}
	if err := awaitNotes(ctx, h, 2*child.Attention, late.Name, child.Returned); err != nil {
		return err
	}
	if err := scenario.Stop(late); err != nil {
		return err
	}
	after, err := rowsByNumber(ctx, h)
	if err != nil {
		return err
	}
	for number, row := range before {
		if after[number] != row {
			c := child.FrozenCaseOf(number)
			changed.rows = append(changed.rows, fmt.Sprintf("job %d, %v, slow rival %v, attentive %v: %s", number, c.Action, c.Slow, c.Attentive, scenario.Difference(row, after[number])))
		}
	}
	return nil
}

// awaitNotes waits until all of a worker's handlers have written a note.
func awaitNotes(ctx context.Context, h *harness.Harness, patience time.Duration, worker, text string) error {
	n := 0
	err := h.WaitUntil(ctx, patience, func() (bool, error) {
		book, err := h.Ledger.Read(ctx)
		n = scenario.Count(book.Notes, func(n ledger.Entry) bool { return n.Worker == worker && n.Text == text })
		return n == perRound, err
	})
	if err != nil {
		return fmt.Errorf("%s: %q of %d handlers, not of %d: %w", worker, text, n, perRound, err)
	}
	return nil
}

func rowsByNumber(ctx context.Context, h *harness.Harness) (map[int]string, error) {
	jobs, err := h.Peer.Jobs(ctx, "")
	rows := make(map[int]string, len(jobs))
	for _, j := range jobs {
		rows[j.Number] = j.Row
	}
	return rows, err
}

func startedBy(ctx context.Context, h *harness.Harness, worker string, n int) (bool, error) {
	book, err := h.Ledger.Read(ctx)
	return scenario.Count(book.Starts, func(s ledger.Entry) bool { return s.Worker == worker }) == n, err
}

func effectsBy(ctx context.Context, h *harness.Harness, worker string, n int) (bool, error) {
	book, err := h.Ledger.Read(ctx)
	return scenario.Count(book.Effects, func(s ledger.Entry) bool { return s.Worker == worker }) == n, err
}

// checkNotes checks the notes of the late handlers.
func checkNotes(h *harness.Harness, notes []ledger.Entry, rounds int) {
	late := func(e ledger.Entry) bool { return e.Attempt == 1 && strings.HasPrefix(e.Worker, "late") }
	ended := scenario.Count(notes, func(e ledger.Entry) bool { return late(e) && strings.HasPrefix(e.Text, child.ContextEnded) })
	h.Row.Check(ended == rounds*perRound/2, "contexts that ended, of the handlers that wait for it: all", "%d of %d", ended, rounds*perRound/2)
	if h.System.Slow > 0 {
		return // the system does not report lost jobs
	}
	withCause := scenario.Count(notes, func(e ledger.Entry) bool { return late(e) && e.Text == child.ContextEnded+queue.ErrLost.Error() })
	h.Row.Check(withCause == ended, "with the cause ErrLost: all", "%d of %d", withCause, ended)
	lost := make(map[int]bool)
	for _, e := range notes {
		if late(e) && e.Text == child.Lost {
			lost[e.Number] = true
		}
	}
	h.Row.Check(len(lost) == rounds*perRound, "jobs that Extend or Settle told the late worker are lost: all", "%d of %d", len(lost), rounds*perRound)
}

// checkBusiness demands that each of this many jobs has exactly one business row.
func checkBusiness(ctx context.Context, h *harness.Harness, jobs int) error {
	rows, err := h.Business(ctx)
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
	h.Row.Check(len(of) == jobs && repeated == 0, "business rows of a job that is settled in their transaction: exactly one",
		"%d of %d jobs have one, %d more than that", len(of), jobs, repeated)
	return nil
}
