package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
)

// patience is how long the harness waits for a change before it takes the remaining jobs for lost.
// The time that the system needs to run an abandoned job again is added to it.
const patience = 60 * time.Second

// Drain waits until the enqueuers have ended and no job is left. It returns without an error if
// nothing has changed for a long time: the audit then finds that the jobs are lost.
func (h *Harness) Drain(ctx context.Context, enqueuers ...*child.Process) error {
	for _, p := range enqueuers {
		if err := h.WaitUntil(ctx, 30*time.Minute, func() (bool, error) { return hasEnded(p), nil }); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	var before [2]int
	changed := time.Now()
	return h.WaitUntil(ctx, 30*time.Minute, func() (bool, error) {
		live, err := h.Peer.Live(ctx)
		if err != nil {
			return false, err
		}
		_, effects, err := h.Ledger.Progress(ctx)
		if now := [2]int{live, effects}; now != before {
			before, changed = now, time.Now()
		}
		return live == 0 || time.Since(changed) > patience+h.System.Slow, err
	})
}

func hasEnded(p *child.Process) bool {
	select {
	case <-p.Ended():
		return true
	default:
		return false
	}
}

// Audit compares the ledger with the table and fills the row. It adds the criteria of every
// scenario: no job is lost, none is left, and none has an effect that was never enqueued.
func (h *Harness) Audit(ctx context.Context) (audit.Finding, ledger.Book, error) {
	book, err := h.Ledger.Read(ctx)
	if err != nil {
		return audit.Finding{}, book, err
	}
	f, err := h.AuditBook(ctx, book)
	return f, book, err
}

// AuditBook is Audit with a book of the caller. A scenario calls it whose effects are not in the
// ledger.
func (h *Harness) AuditBook(ctx context.Context, book ledger.Book) (audit.Finding, error) {
	jobs, err := h.Peer.Jobs(ctx, "")
	if err != nil {
		return audit.Finding{}, err
	}
	f := audit.Audit(audit.Evidence{Book: book, Jobs: jobs, Faults: h.faults, MayLose: h.mayLose, Unknown: child.InDoubt(book.Notes)})
	r := h.Row
	r.Jobs, r.Faults, r.Lost, r.Open, r.Duplicates, r.Bound = f.Acked, len(h.faults), len(f.Lost)+len(f.Missed), len(f.Open), f.Dup, f.Bound
	r.RecoveryMS = h.recovery(book).Milliseconds()
	want := "lost 0"
	if h.mayLose != nil {
		want = "lost, but for " + h.lossIs + ": 0"
	}
	r.Check(len(f.Lost) == 0, want, "%s", FirstFew(f.Lost))
	r.Check(len(f.Open) == 0, "jobs that still wait or run at the end: 0", "%s", FirstFew(f.Open))
	r.Check(len(f.Ghosts) == 0, "effects of jobs that never were: 0", "%s", FirstFew(f.Ghosts))
	if f.Dead > 0 {
		r.Note("%d jobs are dead, with a reason", f.Dead)
	}
	return f, nil
}

// CheckDuplicates demands that every extra start is of a job that a fault found started and not
// settled.
func (h *Harness) CheckDuplicates(f audit.Finding) {
	h.Row.Check(f.Dup <= f.Bound, "duplicates ≤ in flight + not settled at the faults", "%d ≤ %d", f.Dup, f.Bound)
	var strange []string
	for _, e := range f.Unexplained {
		strange = append(strange, fmt.Sprintf("job %d, attempt %d by %s at %s", e.Number, e.Attempt, e.Worker, e.At.Format("15:04:05.000")))
	}
	h.Row.Check(len(strange) == 0, "duplicates that no fault explains: 0", "%s", FirstFew(strange))
}

// recovery returns how long after the last fault the rate was again as before the first fault. It
// is negative if there was no fault.
func (h *Harness) recovery(book ledger.Book) time.Duration {
	if len(h.faults) == 0 || len(book.Effects) == 0 {
		return -time.Millisecond
	}
	last := h.faults[len(h.faults)-1]
	over := last.At
	if last.Until.After(over) {
		over = last.Until
	}
	return audit.Recovery(book.Effects, audit.Rate(book.Effects, book.Effects[0].At, h.faults[0].At), over)
}

// FirstFew returns the length of a list and its first elements, as text.
func FirstFew[T any](list []T) string {
	const most = 3
	if len(list) == 0 {
		return "0"
	}
	var first []string
	for _, v := range list[:min(most, len(list))] {
		first = append(first, fmt.Sprint(v))
	}
	text := fmt.Sprintf("%d: %s", len(list), strings.Join(first, "; "))
	if len(list) > most {
		text += " …"
	}
	return text
}
