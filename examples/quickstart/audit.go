package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// facts are what the audit goes by: what the customers were told, what the
// receiver got, and what is in the database.
type facts struct {
	committed []int64 // orders that the API said were taken
	declined  []int64 // orders that it said were not

	delivered tally // by order: how often the receiver accepted its webhook
	troubles  int   // requests that the receiver failed or did not answer
	held      tally // orders whose webhooks the killed worker held

	orders    tally // rows of the table, by order
	confirmed tally
	enqueued  tally
	jobs      map[queue.Status]int

	took time.Duration
}

// tally counts something by order.
type tally map[int64]int

// facts collects them. It is called when nothing runs any more.
func (d *day) facts(ctx context.Context) (f facts, err error) {
	f = facts{took: time.Since(d.began), held: d.held}
	f.committed, f.declined = d.customers.told()
	f.delivered, f.troubles = d.receiver.got()
	if f.orders, err = d.shop.tally(ctx, `SELECT id FROM orders`); err != nil {
		return f, err
	}
	if f.confirmed, err = d.shop.tally(ctx, `SELECT order_id FROM confirmations`); err != nil {
		return f, err
	}
	if f.enqueued, err = d.shop.enqueued(ctx); err != nil {
		return f, err
	}
	f.jobs, err = d.shop.jobCounts(ctx)
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
	switch f.high {
	case f.low:
		return fmt.Sprint(f.low)
	case math.MaxInt:
		return fmt.Sprintf("at least %d", f.low)
	}
	return fmt.Sprintf("%d to %d", f.low, f.high)
}

// audit holds the facts against what errand promises.
func audit(f facts) []finding {
	const declined = ordersToPlace / declineEvery
	const taken = ordersToPlace - declined
	exactly := func(what string, got, want int) finding { return finding{what, got, want, want} }
	webhooks, confirmations := f.done(f.delivered), f.done(f.confirmed)
	explained, unexplained := f.repeated()
	return []finding{
		exactly("orders committed", f.done(f.orders), taken),
		exactly("orders rolled back", len(f.declined), declined),
		exactly("traces of anything that was rolled back", f.traces(), 0),
		exactly("webhooks delivered, of different orders", webhooks, taken),
		exactly("confirmations, of different orders", confirmations, taken),
		exactly("confirmations made twice", total(f.confirmed)-len(f.confirmed), 0),
		{"failed deliveries, tried again", f.troubles, 1, math.MaxInt},
		{"deliveries repeated after the kill, of what was held", explained, 1, len(f.held)},
		exactly("deliveries repeated without a reason", unexplained, 0),
		exactly("jobs completed", f.jobs[queue.StatusCompleted], 2*taken),
		exactly("jobs dead", f.jobs[queue.StatusDead], 0),
		exactly("jobs lost", 2*len(f.committed)-webhooks-confirmations, 0),
		exactly("jobs still open", f.jobs[queue.StatusPending]+f.jobs[queue.StatusRunning], 0),
	}
}

// done counts the committed orders that are in t.
func (f facts) done(t tally) (n int) {
	for _, id := range f.committed {
		if t[id] > 0 {
			n++
		}
	}
	return n
}

// traces counts whatever there is of orders that were not committed.
func (f facts) traces() (n int) {
	committed := make(map[int64]bool)
	for _, id := range f.committed {
		committed[id] = true
	}
	for _, t := range []tally{f.orders, f.enqueued, f.delivered, f.confirmed} {
		for id, times := range t {
			if !committed[id] {
				n += times
			}
		}
	}
	return n
}

// repeated counts deliveries beyond the first. A job that the killed worker held
// may have been delivered once more, and nothing else may.
func (f facts) repeated() (explained, unexplained int) {
	for id, times := range f.delivered {
		more := times - 1
		if more > 0 && f.held[id] > 0 {
			explained++
			more--
		}
		unexplained += more
	}
	return explained, unexplained
}

func total(t tally) (n int) {
	for _, times := range t {
		n += times
	}
	return n
}

// report writes the findings. The error lists those that are not as they have to be.
func report(w io.Writer, findings []finding, took time.Duration) error {
	fmt.Fprintln(w)
	var failed []string
	for _, f := range findings {
		verdict := "ok"
		if !f.ok() {
			verdict = "FAILED"
			failed = append(failed, fmt.Sprintf("%s: %d, want %s", f.what, f.got, f.want()))
		}
		fmt.Fprintf(w, "  %-52s %5d  want %-10s  %s\n", f.what, f.got, f.want(), verdict)
	}
	if len(failed) > 0 {
		return fmt.Errorf("audit failed: %s", strings.Join(failed, "; "))
	}
	_, err := fmt.Fprintf(w, "\naudit passed: nothing was lost in %.1fs\n", took.Seconds())
	return err
}
