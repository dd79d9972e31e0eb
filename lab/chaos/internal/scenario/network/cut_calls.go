package network

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/wire"
)

// checkCut compares what the clients were told with the cuts and with the table.
func checkCut(ctx context.Context, h *harness.Harness, cutting, idle []*cutClient) error {
	if err := sessionsEnded(ctx, h); err != nil {
		return err
	}
	book, err := h.Ledger.Read(ctx)
	if err != nil {
		return err
	}
	rows, err := rowsOfNumbers(ctx, h)
	if err != nil {
		return err
	}
	var v cutVerdicts
	for _, c := range cutting {
		v.add(c, book, rows)
	}
	v.check(h)
	checkIdle(h, idle, book)
	return nil
}

// checkIdle demands that no error is ErrUnknown if nothing of the call can have been sent. lib/pq
// has the same error for a connection that was broken before the call and one that broke during it.
// But there the call is a transaction, which may run again until its commit is sent.
func checkIdle(h *harness.Harness, idle []*cutClient, book ledger.Book) {
	var wrong []string
	for _, c := range idle {
		refused := 0
		for _, e := range failuresOf(c, book) {
			if strings.HasPrefix(e.Text, child.Known) {
				refused++
			} else {
				wrong = append(wrong, fmt.Sprintf("%s, job %d: %s", c.name, e.Number, e.Text))
			}
		}
		h.Row.Note("%s: %d cuts of idle connections; %d calls failed for certain, those that could not connect", c.name, c.cutsSoFar(), refused)
	}
	h.Row.Check(len(wrong) == 0, "ErrUnknown where nothing can have been sent: 0", "%s", harness.FirstFew(wrong))
}

// sessionsEnded waits until the server has finished the clients' statements.
func sessionsEnded(ctx context.Context, h *harness.Harness) error {
	conn, err := pgx.Connect(ctx, h.Server.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return h.WaitUntil(ctx, time.Minute, func() (ended bool, err error) {
		err = conn.QueryRow(ctx, cutSessionsEndedSQL).Scan(&ended)
		return ended, err
	})
}

const cutSessionsEndedSQL = `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE '% tx %' OR application_name LIKE 'idle %')`

// rowsOfNumbers counts the rows of each job in the table.
func rowsOfNumbers(ctx context.Context, h *harness.Harness) (map[int]int, error) {
	jobs, err := h.Peer.Jobs(ctx, "")
	rows := make(map[int]int, len(jobs))
	for _, j := range jobs {
		rows[j.Number]++
	}
	return rows, err
}

func failuresOf(c *cutClient, book ledger.Book) (failures []ledger.Entry) {
	for _, e := range book.Notes {
		if e.Worker == c.name {
			failures = append(failures, e)
		}
	}
	return failures
}

// cutVerdicts is what was wrong with the clients' calls.
type cutVerdicts struct {
	cuts, keys       int
	unpaired         []string // clients whose cuts and failed calls do not match one to one
	keyed            []string // jobs with a key and not exactly one row
	untyped, unasked []string // failures of the wrong kind
	wrong            []string // jobs without a key whose rows do not fit the cut
}

// add checks a client's calls. Its cuts and its failures are in the same order.
func (v *cutVerdicts) add(c *cutClient, book ledger.Book, rows map[int]int) {
	failures := failuresOf(c, book)
	v.cuts += len(c.cuts)
	if len(failures) != len(c.cuts) {
		v.unpaired = append(v.unpaired, fmt.Sprintf("%s: %d failures of %d cuts", c.name, len(failures), len(c.cuts)))
	} else {
		for i, fate := range c.cuts {
			v.failure(c, fate, failures[i], rows)
		}
	}
	for call := 0; ; call++ {
		numbers := c.how.CallOf(call)
		if numbers[0] > c.last(book, failures) {
			return
		}
		for _, n := range numbers {
			_, acked := book.Acked[n]
			switch {
			case c.how.Keyed:
				v.keys++
				if !acked || rows[n] != 1 {
					v.keyed = append(v.keyed, fmt.Sprintf("%s, job %d: acknowledged %v, %d rows", c.name, n, acked, rows[n]))
				}
			case acked && rows[n] != 1:
				v.wrong = append(v.wrong, fmt.Sprintf("%s, job %d: acknowledged, %d rows", c.name, n, rows[n]))
			}
		}
	}
}

// last returns the highest number that the client has called with.
func (c *cutClient) last(book ledger.Book, failures []ledger.Entry) (last int) {
	for n := range book.Acked {
		if n >= c.how.First && n < c.how.First+1_000_000 {
			last = max(last, n)
		}
	}
	for _, e := range failures {
		last = max(last, e.Number)
	}
	return last
}

// failure checks one call that was cut.
func (v *cutVerdicts) failure(c *cutClient, fate wire.Fate, e ledger.Entry, rows map[int]int) {
	text := fmt.Sprintf("%s, job %d, %v: %s", c.name, e.Number, fate, e.Text)
	switch {
	case c.how.Tx && !strings.HasPrefix(e.Text, child.CommitFailed):
		v.unasked = append(v.unasked, text)
	case !c.how.Tx && !strings.HasPrefix(e.Text, child.Unknown):
		v.untyped = append(v.untyped, text)
	}
	if c.how.Keyed {
		return
	}
	numbers := c.how.CallOf((e.Number - c.how.First) / 2)
	for _, n := range numbers {
		if !mayLeave(fate, rows[n]) || rows[n] != rows[numbers[0]] {
			v.wrong = append(v.wrong, fmt.Sprintf("%s; %d rows of job %d", text, rows[n], n))
		}
	}
}

// mayLeave reports whether a call that was cut like this may have left so many rows of a job. pgx
// asks the server, on another connection, to cancel a call that gets no answer.
func mayLeave(fate wire.Fate, rows int) bool {
	switch fate {
	case wire.CutUnsent:
		return rows == 0
	case wire.CutAnswered:
		return rows == 1
	}
	return rows == 0 || rows == 1
}

func (v *cutVerdicts) check(h *harness.Harness) {
	h.Row.Check(len(v.unpaired) == 0, "calls that failed: those that were cut, and no others", "%d cuts; others: %s", v.cuts, harness.FirstFew(v.unpaired))
	h.Row.Check(len(v.keyed) == 0 && v.keys > 0, "keyed, enqueued again until acknowledged: exactly one row", "of %d keys not one: %s", v.keys, harness.FirstFew(v.keyed))
	h.Row.Check(len(v.untyped) == 0, "unkeyed or keyed, without a transaction: each failure is ErrUnknown", "others: %s", harness.FirstFew(v.untyped))
	h.Row.Check(len(v.unasked) == 0, "in a transaction: each failure is the commit's", "others: %s", harness.FirstFew(v.unasked))
	h.Row.Check(len(v.wrong) == 0, "unkeyed: none of a call's jobs where it did not arrive, each once where it was answered, all or none else",
		"others: %s", harness.FirstFew(v.wrong))
}
