package data

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var deadlocks = scenario.Scenario{
	Number: 17,
	Name:   "deadlocks",
	What:   "complete, cancel, retry, extend, claim, prune, redrive and enqueue at random, with overlapping jobs",
	Run:    contend,
}

func contend(ctx context.Context, h *harness.Harness) error {
	const processes, callers = 4, 6
	var contenders []*child.Process
	for i := range processes {
		p, err := h.Start(child.Spec{
			Part: "contend", Name: fmt.Sprintf("m%d", i+1),
			Contend: child.Contend{Callers: callers, Lasting: harness.Size(h, 10*time.Minute, 8*time.Second), First: i * 100_000_000},
		})
		if err != nil {
			return err
		}
		contenders = append(contenders, p)
	}
	if err := runTogether(ctx, h, contenders); err != nil {
		return err
	}
	inside, err := deadlocksInside(ctx, h)
	if err != nil {
		return err
	}
	crew, err := h.Crew(2, child.Work{Worker: peer.Worker{Concurrency: 16, Lease: 2 * time.Second}})
	if err != nil {
		return err
	}
	_, book, err := crew.Finish(ctx)
	if err != nil {
		return err
	}
	h.Row.Note("%d processes of %d callers; half of the calls that can be are in transactions of the callers' own; "+
		"the server ended %d deadlocks in all", processes, callers, inside)
	checkCalls(h, book.Notes)
	return nil
}

// deadlocksInside returns how many deadlocks the server counts. errand may have repeated some of
// these statements with success.
func deadlocksInside(ctx context.Context, h *harness.Harness) (n int, err error) {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n)
	return n, err
}

// checkCalls demands that no caller got a deadlock or another error, and that calls of each kind
// did something.
func checkCalls(h *harness.Harness, notes []ledger.Entry) {
	went, surfaced := make(map[string]int), make(map[string]int)
	var failed []string
	total, all := 0, 0
	for _, n := range notes {
		kind, result, ok := strings.Cut(n.Text, "/")
		if !ok {
			continue
		}
		all += n.Number
		switch {
		case result == child.Went:
			went[kind] += n.Number
		case strings.HasPrefix(result, child.Surfaced):
			surfaced[n.Text] += n.Number
			total += n.Number
		case strings.HasPrefix(result, child.Failed):
			failed = append(failed, fmt.Sprintf("%d of %s", n.Number, n.Text))
		}
	}
	h.Row.Check(total == 0, "deadlocks that reached a caller: 0", "%d of %d calls, by kind %v", total, all, surfaced)
	h.Row.Check(len(failed) == 0, "other errors: 0", "%s", harness.FirstFew(failed))
	enough := harness.Size(h, 1000, 20)
	var rare []string
	for _, kind := range child.Calls {
		if went[kind] < enough {
			rare = append(rare, fmt.Sprintf("%s went %d times", kind, went[kind]))
		}
	}
	h.Row.CheckTime(len(rare) == 0, fmt.Sprintf("calls of each kind that did something: %d and more", enough), "fewer: %s; %v", harness.FirstFew(rare), went)
}
