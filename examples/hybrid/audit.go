package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/errandhq/errand/queue"
)

// facts are what the audit goes by: the ledger, and what is in the databases.
type facts struct {
	*ledger
	orders, confirmations, confirmed int // rows, and of confirmations those of different orders
	dead, open                       int // jobs of both backends
}

// facts collects them. It is called when nothing runs any more.
func (d *day) facts(ctx context.Context) (f facts, err error) {
	f = facts{ledger: d.ledger}
	const count = `SELECT (SELECT count(*) FROM orders), count(*), count(DISTINCT order_id) FROM confirmations`
	if err := d.postgres.DB.QueryRowContext(ctx, count).Scan(&f.orders, &f.confirmations, &f.confirmed); err != nil {
		return f, err
	}
	counts, err := d.jobs.Counts(ctx)
	for _, c := range counts {
		switch c.Status {
		case queue.StatusDead:
			f.dead += int(c.Jobs)
		case queue.StatusPending, queue.StatusRunning:
			f.open += int(c.Jobs)
		}
	}
	return f, err
}

// finding is one line of the audit.
type finding struct {
	what      string
	got       int
	low, high int // what it has to be between
}

func (f finding) ok() bool { return f.low <= f.got && f.got <= f.high }

func (f finding) want() string {
	switch {
	case f.low == f.high:
		return fmt.Sprintf("want %d", f.low)
	case f.low == 0 && f.high == math.MaxInt:
		return "any"
	}
	return fmt.Sprintf("want %d to %d", f.low, f.high)
}

// audit holds the facts against what errand promises.
func audit(f facts) []finding {
	const declined = orders / declineEvery
	const clicks = orders*viewsPerOrder + orders - declined
	exactly := func(what string, got, want int) finding { return finding{what, got, want, want} }
	any := func(what string, got int) finding { return finding{what, got, 0, math.MaxInt} }
	handled, uncertain := f.handled(f.acknowledged), f.handled(f.unanswered)
	explained, unexplained := f.repeated()
	return []finding{
		exactly("orders committed", len(f.committed), orders-declined),
		exactly("orders in Postgres", f.orders, len(f.committed)),
		exactly("orders confirmed", f.confirmed, len(f.committed)),
		exactly("orders confirmed twice", f.confirmations-f.confirmed, 0),
		exactly("orders rolled back", len(f.declined), declined),
		exactly("clicks of orders that were rolled back", f.traces(), 0),
		{"clicks acknowledged", len(f.acknowledged), clicks / 2, clicks},
		exactly("  of which handled", handled, len(f.acknowledged)),
		exactly("  of which lost", len(f.acknowledged)-handled, 0),
		any("clicks whose answer was lost in the failover", len(f.unanswered)),
		any("  of which handled all the same", uncertain),
		any("clicks refused in the failover, as their sender knows", f.refused),
		any("clicks handled twice because of the failover", explained),
		exactly("clicks handled twice for no reason", unexplained, 0),
		exactly("clicks of which the ledger does not know", len(f.runs)-handled-uncertain-f.traces(), 0),
		exactly("jobs dead", f.dead, 0),
		exactly("jobs still open", f.open, 0),
	}
}

// handled returns how many of the clicks have been handled.
func (f facts) handled(clicks map[string]bool) (n int) {
	for name := range clicks {
		if len(f.runs[name]) > 0 {
			n++
		}
	}
	return n
}

// traces returns how many clicks have been handled whose orders were rolled back.
func (f facts) traces() (n int) {
	for _, id := range f.declined {
		n += len(f.runs[orderClick(id)])
	}
	return n
}

// repeated returns how often clicks were handled again. The failover is the reason if it came
// before the second run, and the first one began before it was over: the outcome of the first run,
// or its claim, was known to the killed master alone. The other reason is a lease that the worker
// has lost.
func (f facts) repeated() (explained, unexplained int) {
	for name, runs := range f.runs {
		for i, at := range runs[1:] {
			isFailover := at.After(f.killed) && runs[i].Before(f.mended)
			if isFailover || f.lost[name] {
				explained++
			} else {
				unexplained++
			}
		}
	}
	return explained, unexplained
}

// why says what the figures mean.
const why = `
Why no acknowledged click is lost: Redis answers before its replicas have a job. A master that dies
takes along what only it had, so by default backend/redis may lose the jobs of the last moments.
This program sets Durable: 1. Enqueue then returns when a replica has the job as well, and orders'
clicks wait in Postgres until that is so. While a master has no replica, its clicks are not
acknowledged. (A replica that dies with its master loses jobs all the same.)

Why a click may be handled twice: Redis does not wait for replicas when a job is claimed or done.
The new master may not know that a job was done, and then it runs again. Confirmations are written
in the transaction that settles their job in Postgres, so each is there once.
`

// report writes the findings. The error lists those that are not as they have to be.
func report(w io.Writer, f facts) error {
	fmt.Fprintln(w)
	var wrong []string
	for _, one := range audit(f) {
		verdict := "ok"
		if !one.ok() {
			verdict = "FAILED"
			wrong = append(wrong, fmt.Sprintf("%s: %d, %s", strings.TrimSpace(one.what), one.got, one.want()))
		}
		fmt.Fprintf(w, "  %-54s %5d  %-17s  %s\n", one.what, one.got, one.want(), verdict)
	}
	if len(f.failed) > 0 {
		wrong = append(wrong, fmt.Sprintf("%d orders failed, the first with: %v", len(f.failed), f.failed[0]))
	}
	fmt.Fprint(w, why)
	if len(wrong) > 0 {
		return fmt.Errorf("audit failed: %s", strings.Join(wrong, "; "))
	}
	_, err := fmt.Fprintf(w, "\naudit passed: no acknowledged job was lost, although the cluster lacked a node for %.1f s\n", f.outage().Seconds())
	return err
}
