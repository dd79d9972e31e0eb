package data

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/lab"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/system"
)

var deadlocks = scenario.Scenario{
	Number: 17,
	Name:   "deadlocks",
	What:   "complete, cancel, retry, extend, claim, prune, redrive and enqueue at random, with overlapping jobs",
	Run:    meddle,
}

func meddle(ctx context.Context, l *lab.Lab) error {
	const processes, callers = 4, 6
	var meddlers []*child.Process
	for i := range processes {
		p, err := l.Start(child.Spec{
			Part: "meddle", Name: fmt.Sprintf("m%d", i+1),
			Meddle: child.Meddle{Callers: callers, Lasting: lab.Size(l, 10*time.Minute, 8*time.Second), First: i * 100_000_000},
		})
		if err != nil {
			return err
		}
		meddlers = append(meddlers, p)
	}
	if err := tellAll(ctx, l, meddlers); err != nil {
		return err
	}
	inside, err := deadlocksInside(ctx, l)
	if err != nil {
		return err
	}
	crew, err := l.Crew(2, child.Work{Worker: system.Worker{Concurrency: 16, Lease: 2 * time.Second}})
	if err != nil {
		return err
	}
	_, book, err := crew.Finish(ctx)
	if err != nil {
		return err
	}
	l.Row.Note("%d processes of %d callers; half of the calls that can be are in transactions of the callers' own; "+
		"the server ended %d deadlocks in all", processes, callers, inside)
	checkCalls(l, book.Notes)
	return nil
}

// deadlocksInside is how many the server counts, of which errand may have made good for some.
func deadlocksInside(ctx context.Context, l *lab.Lab) (n int, err error) {
	conn, err := pgx.Connect(ctx, l.DSN())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n)
	return n, err
}

// checkCalls demands that no deadlock reached a caller, nor any other error, and that there were
// calls of each kind that did something.
func checkCalls(l *lab.Lab, notes []ledger.Entry) {
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
	l.Row.Check(total == 0, "deadlocks that reached a caller: 0", "%d of %d calls, by kind %v", total, all, surfaced)
	l.Row.Check(len(failed) == 0, "other errors: 0", "%s", lab.Few(failed))
	enough := lab.Size(l, 1000, 20)
	var rare []string
	for _, kind := range child.Calls {
		if went[kind] < enough {
			rare = append(rare, fmt.Sprintf("%s went %d times", kind, went[kind]))
		}
	}
	l.Row.CheckTime(len(rare) == 0, fmt.Sprintf("calls of each kind that did something: %d and more", enough), "fewer: %s; %v", lab.Few(rare), went)
}
