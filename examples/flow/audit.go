package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// facts are what the handlers, the ledger and the database have seen.
type facts struct {
	webhooks     []queue.Record // that have ended
	counts       []queue.StatusCount
	highest      int // most webhooks of one tenant that ran at once
	changes      []change
	entries      int
	mistakes     []string
	ticks        []time.Time // in order
	paused       time.Time
	resumed      time.Time
	cancelled    time.Time
	cancelledIDs int // how many jobs Cancel has named
}

// facts collects them.
func (p *plan) facts(ctx context.Context) (f facts, err error) {
	f.paused, f.resumed, f.cancelled, f.cancelledIDs = p.paused, p.resumed, p.cancelled, p.atCancel
	f.highest, f.changes = p.service.running.highest, p.service.running.changes
	f.entries, f.mistakes = p.service.ledger.written, p.service.ledger.mistakes
	f.ticks = slices.SortedFunc(slices.Values(p.service.pulses.seen), time.Time.Compare)
	if f.counts, err = p.service.inspector().Counts(ctx); err != nil {
		return f, err
	}
	filter := queue.Filter{Kind: TenantWebhook.Name, Limit: 1000}
	for {
		page, next, err := p.service.inspector().Jobs(ctx, filter)
		if err != nil {
			return f, err
		}
		f.webhooks = append(f.webhooks, page...)
		if filter.Before = next; next == 0 {
			return f, nil
		}
	}
}

// finding is one line of the audit.
type finding struct {
	what string
	got  string
	ok   bool
}

// audit compares the facts with the rules.
func audit(f facts) []finding {
	wait := f.waits()
	inPause := 0
	for _, r := range f.webhooks {
		if r.StartedAt.After(f.paused) && r.StartedAt.Before(f.resumed) {
			inPause++
		}
	}
	open, cancelled := int64(0), int64(0)
	for _, c := range f.counts {
		switch c.Status {
		case queue.StatusPending, queue.StatusRunning, queue.StatusHeld, queue.StatusDead:
			open += c.Jobs
		case queue.StatusCancelled:
			cancelled += c.Jobs
		}
	}
	return []finding{
		{fmt.Sprintf("webhooks of a tenant at once, at most %d", perTenant), fmt.Sprint(f.highest), f.highest <= perTenant},
		{fmt.Sprintf("webhooks of a tenant beyond %d/s in any time, at most %d", perSecond, atOnce), fmt.Sprintf("%.2f", f.largestBurst()), f.largestBurst() < atOnce+0.01},
		{"webhooks begun during the pause", fmt.Sprint(inPause), inPause == 0},
		{"ledger entries out of order or at once", fmt.Sprintf("%d of %d", len(f.mistakes), f.entries), len(f.mistakes) == 0 && f.entries > 0},
		{"ticks of the schedule missed or doubled", fmt.Sprintf("%d of %d", badTicks(f.ticks), len(f.ticks)), badTicks(f.ticks) == 0 && len(f.ticks) > 1},
		{"jobs cancelled", fmt.Sprintf("%d, and Cancel named %d", cancelled, f.cancelledIDs), cancelled > 0 && cancelled <= int64(f.cancelledIDs)},
		{"jobs that are open or dead", fmt.Sprint(open), open == 0},
		{"the other tenants' webhooks waited, outside the pause", fmt.Sprintf("p50 %v, p99 %v", percentile(wait, 50), percentile(wait, 99)), len(wait) > 0},
	}
}

// report writes the findings, and returns an error if one of them is not as it should be.
func report(w io.Writer, findings []finding) error {
	var errs []error
	for _, f := range findings {
		mark := "ok  "
		if !f.ok {
			mark = "FAIL"
			errs = append(errs, fmt.Errorf("%s: %s", f.what, f.got))
		}
		fmt.Fprintf(w, "%s  %s: %s\n", mark, f.what, f.got)
	}
	return errors.Join(errs...)
}

// waits returns how long the other tenants' webhooks waited, sorted, without those that waited for
// the end of the pause.
func (f facts) waits() (all []time.Duration) {
	for _, r := range f.webhooks {
		isHeldUp := r.ScheduledAt.Before(f.resumed) && r.StartedAt.After(f.paused)
		if r.Group != floodTenant && !isHeldUp {
			all = append(all, r.StartedAt.Sub(r.ScheduledAt))
		}
	}
	slices.Sort(all)
	return all
}

// largestBurst returns, of all windows of time and of all tenants, how many webhooks began in one
// beyond perSecond times its length.
func (f facts) largestBurst() (largest float64) {
	begun := make(map[string][]time.Time)
	for _, r := range f.webhooks {
		if !r.StartedAt.IsZero() {
			begun[r.Group] = append(begun[r.Group], r.StartedAt)
		}
	}
	for _, times := range begun {
		slices.SortFunc(times, time.Time.Compare)
		lowest := math.Inf(1)
		for i, at := range times {
			beyond := float64(i) - perSecond*at.Sub(times[0]).Seconds()
			lowest = min(lowest, beyond)
			largest = max(largest, beyond-lowest+1)
		}
	}
	return largest
}

// badTicks counts ticks that are not a second after the one before.
func badTicks(ticks []time.Time) (bad int) {
	for i := 1; i < len(ticks); i++ {
		if ticks[i].Sub(ticks[i-1]) != time.Second {
			bad++
		}
	}
	return bad
}

// percentile returns the nth percentile of sorted values.
func percentile(sorted []time.Duration, n int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)*n/100, len(sorted)-1)].Round(time.Millisecond / 10)
}
