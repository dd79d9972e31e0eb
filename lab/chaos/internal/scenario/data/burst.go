package data

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var burst = scenario.Scenario{
	Number: 7,
	Name:   "burst",
	What:   "one of 5,000 outcomes at once has an error with NUL, bad UTF-8, 50 MB, or all of it",
	Peers:  true,
	Alone:  true,
	Run:    burstRounds,
	// The server tells when a settle was committed.
	Settings: map[string]string{"track_commit_timestamp": "on"},
}

const (
	together     = 5000
	leaseOfBurst = 10 * time.Second
	// longestText is the limit that queue.ErrorText documents.
	longestText = 8 << 10
)

func burstRounds(ctx context.Context, h *harness.Harness) error {
	found := bursts{slowest: make(map[string]time.Duration)}
	draw := h.Source("bad outcomes")
	verbs := []peer.Action{peer.Retry, peer.Dead}
	for i := range harness.Size(h, 10, 1) * len(child.BadTexts) {
		b := child.BadOutcome{
			Number: 1 + i*together + draw.IntN(together),
			Text:   child.BadTexts[i%len(child.BadTexts)],
			Action: verbs[(i+i/len(child.BadTexts))%len(verbs)], // each text with each action
		}
		if err := found.round(ctx, h, i, b); err != nil {
			return fmt.Errorf("%s: %w", b.Text, err)
		}
	}
	if err := h.Drain(ctx); err != nil {
		return err
	}
	f, _, err := h.Audit(ctx)
	if err != nil {
		return err
	}
	h.Row.RecoveryMS = -1
	found.check(h)
	h.Row.Check(f.Dup == found.retried, "starts beyond the first: only of those to be retried", "%d of %d", f.Dup, found.retried)
	h.Row.Duplicates -= found.retried // these retries were asked for
	return nil
}

// bursts are the results of the rounds.
type bursts struct {
	rounds, retried, inTime int
	slowest                 map[string]time.Duration // by the bad text
	late                    []string                 // rounds, and how many other jobs were settled late
	wrong                   []string                 // how the bad outcome was recorded wrongly
}

// round makes a worker return 5,000 outcomes at once.
func (f *bursts) round(ctx context.Context, h *harness.Harness, i int, bad child.BadOutcome) error {
	first := 1 + i*together
	w, err := h.Worker(fmt.Sprintf("w%d", i+1), child.Work{
		Worker: peer.Worker{Concurrency: together, Lease: leaseOfBurst}, Handler: "burst", Bad: bad,
	})
	if err != nil {
		return err
	}
	numbers := make([]int, together)
	for n := range numbers {
		numbers[n] = first + n
	}
	if err := h.Enqueue(ctx, peer.Plain, numbers...); err != nil {
		return err
	}
	if err := h.WaitUntil(ctx, time.Minute, func() (bool, error) { return allWait(ctx, h, i) }); err != nil {
		return fmt.Errorf("the worker does not come to run all: %w", err)
	}
	told := time.Now()
	if err := w.Go(); err != nil {
		return err
	}
	left := 0 // live jobs when all are settled
	if bad.Action == peer.Retry {
		left = 1
		f.retried++
	}
	if err := awaitSettled(ctx, h, left, w.Name); err != nil {
		return err
	}
	if err := f.checkBurst(ctx, h, first, told, bad); err != nil {
		return err
	}
	if err := h.Exec(ctx, burstTables[h.System.Name].hurry); err != nil {
		return err
	}
	if err := awaitSettled(ctx, h, 0, w.Name); err != nil {
		return err
	}
	return scenario.Stop(w)
}

// allWait reports whether all handlers of the round have started, and all but one have had their
// effect.
func allWait(ctx context.Context, h *harness.Harness, round int) (bool, error) {
	_, effects, err := h.Ledger.Progress(ctx)
	if err != nil || effects < (round+1)*(together-1) {
		return false, err
	}
	book, err := h.Ledger.Read(ctx)
	started := make(map[int]bool)
	for _, s := range book.Starts {
		started[s.Number] = true
	}
	return len(started) == (round+1)*together, err
}

// awaitSettled waits until at most n jobs have not ended, and the worker has none. After a long
// time it gives up without an error, and the criteria judge the result.
func awaitSettled(ctx context.Context, h *harness.Harness, n int, worker string) error {
	const patience = 3 * leaseOfBurst
	enough := time.Now().Add(patience + h.System.Slow)
	return h.WaitUntil(ctx, time.Until(enough)+time.Minute, func() (bool, error) {
		live, err := h.Peer.Live(ctx)
		if live > n || err != nil {
			return time.Now().After(enough), err
		}
		held, err := h.Peer.Jobs(ctx, worker)
		return len(held) == 0 || time.Now().After(enough), err
	})
}

// burstTables has each system's statements. settled reads the jobs numbered from $1 to $2: their
// state as [peer.State], when that was committed, and the last error. hurry makes jobs run now that
// wait for a retry.
var burstTables = map[string]struct{ settled, hurry string }{
	"errand": {
		`SELECT (payload ->> 'number')::bigint, CASE status WHEN 'completed' THEN 'done' WHEN 'pending' THEN 'waiting' ELSE status::text END,
			pg_xact_commit_timestamp(xmin), coalesce(last_error, '') FROM errand.jobs WHERE (payload ->> 'number')::bigint BETWEEN $1 AND $2`,
		`UPDATE errand.jobs SET scheduled_at = now() WHERE status = 'pending'`,
	},
	"river": {
		`SELECT (args ->> 'number')::bigint,
			CASE state WHEN 'completed' THEN 'done' WHEN 'cancelled' THEN 'dead' WHEN 'discarded' THEN 'dead' WHEN 'running' THEN 'running' ELSE 'waiting' END,
			pg_xact_commit_timestamp(xmin), coalesce(errors[array_length(errors, 1)] ->> 'error', '')
			FROM river_job WHERE (args ->> 'number')::bigint BETWEEN $1 AND $2`,
		`UPDATE river_job SET scheduled_at = now(), state = 'available' WHERE state = 'retryable'`,
	},
}

// settled is a job after it was settled.
type settled struct {
	number int
	state  peer.State
	at     time.Time // of the commit
	reason string
}

// checkBurst checks the jobs of a round.
func (f *bursts) checkBurst(ctx context.Context, h *harness.Harness, first int, told time.Time, bad child.BadOutcome) error {
	const within = time.Second
	jobs, err := readSettled(ctx, h, first)
	if err != nil {
		return err
	}
	f.rounds++
	inTime, slowest := 0, time.Duration(0)
	for _, j := range jobs {
		switch took := j.at.Sub(told); {
		case j.number == bad.Number:
			if why := wronglyRecorded(j, bad); why != "" {
				f.wrong = append(f.wrong, fmt.Sprintf("%s, %v: %s", bad.Text, bad.Action, why))
			}
		case j.state == peer.Ended:
			slowest = max(slowest, took)
			if took <= within {
				inTime++
			}
		}
	}
	f.inTime += inTime
	f.slowest[bad.Text] = max(f.slowest[bad.Text], slowest)
	if n := together - 1 - inTime; n > 0 {
		f.late = append(f.late, fmt.Sprintf("%d beside %s, %v", n, bad.Text, bad.Action))
	}
	h.Logf("%s, %v: %d of the others settled within %v, the last after %.3f s", bad.Text, bad.Action, inTime, within, slowest.Seconds())
	return nil
}

func readSettled(ctx context.Context, h *harness.Harness, first int) ([]settled, error) {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, burstTables[h.System.Name].settled, first, first+together-1) // CollectRows returns the error, too
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s settled, err error) {
		err = row.Scan(&s.number, &s.state, &s.at, &s.reason)
		return s, err
	})
}

// wronglyRecorded returns how a bad outcome was recorded wrongly, or "".
func wronglyRecorded(j settled, bad child.BadOutcome) string {
	want := peer.GivenUp
	if bad.Action == peer.Retry {
		want = peer.Waiting
	}
	switch {
	case j.state != want:
		return fmt.Sprintf("it is %s, not %s", j.state, want)
	case !strings.Contains(j.reason, child.BadPrefix): // River adds its own prefix
		return fmt.Sprintf("%.40q is not the error", j.reason)
	case !utf8.ValidString(j.reason) || strings.ContainsRune(j.reason, 0):
		return fmt.Sprintf("%.40q has NUL or bad UTF-8", j.reason)
	case len(j.reason) > longestText:
		return fmt.Sprintf("its error has %d bytes", len(j.reason))
	}
	return ""
}

func (f *bursts) check(h *harness.Harness) {
	h.Row.CheckTime(len(f.late) == 0, "others settled within 1 s: all", "%d of %d; not so: %s", f.inTime, f.rounds*(together-1), harness.FirstFew(f.late))
	var slowest []string
	for _, text := range child.BadTexts {
		slowest = append(slowest, fmt.Sprintf("%s %.3f s", text, f.slowest[text].Seconds()))
	}
	h.Row.Note("until all others were settled, at most: beside %s", strings.Join(slowest, ", "))
	h.Row.Check(len(f.wrong) == 0, "the one recorded as its verb has it, its text without NUL, valid, and of 8 KiB at most",
		"not so: %s of %d", harness.FirstFew(f.wrong), f.rounds)
}
