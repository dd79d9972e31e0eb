package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

// goodFacts are those of a day on which order 1 was delivered twice because of
// the kill, and every tenth order was declined.
func goodFacts() facts {
	f := facts{
		delivered: tally{}, orders: tally{}, confirmed: tally{}, enqueued: tally{},
		held: tally{1: 1, 2: 1}, troubles: 300, jobs: map[queue.Status]int{},
		took: 6 * time.Second,
	}
	for id := int64(1); id <= ordersToPlace; id++ {
		if id%declineEvery == 0 {
			f.declined = append(f.declined, id)
			continue
		}
		f.committed = append(f.committed, id)
		f.orders[id], f.confirmed[id], f.delivered[id], f.enqueued[id] = 1, 1, 1, 2
		f.jobs[queue.StatusCompleted] += 2
	}
	f.delivered[1] = 2
	return f
}

func TestAuditPasses(t *testing.T) {
	var out strings.Builder
	f := goodFacts()
	if err := report(&out, audit(f), f.took); err != nil {
		t.Error(err)
	}
	if got, want := out.String(), "\naudit passed: nothing was lost in 6.0s\n"; !strings.HasSuffix(got, want) {
		t.Errorf("report is %q, want %q at its end", got, want)
	}
}

// Whatever may go wrong, the audit sees it and says what.
func TestAuditFails(t *testing.T) {
	tests := []struct {
		name   string
		doctor func(*facts)
		want   string // in the error
	}{
		{"order vanished", func(f *facts) { delete(f.orders, 5) }, "orders committed: 1799, want 1800"},
		{"order refused", func(f *facts) { f.committed = f.committed[1:] }, "orders committed: 1799, want 1800"},
		{"nothing declined", func(f *facts) { f.declined = nil }, "orders rolled back: 0, want 200"},
		{"declined order is there", func(f *facts) { f.orders[10]++ }, "rolled back: 1, want 0"},
		{"job of declined order is there", func(f *facts) { f.enqueued[10]++ }, "rolled back: 1, want 0"},
		{"job of declined order ran", func(f *facts) { f.delivered[10]++ }, "rolled back: 1, want 0"},
		{"declined order confirmed", func(f *facts) { f.confirmed[10]++ }, "rolled back: 1, want 0"},
		{"webhook lost", func(f *facts) { delete(f.delivered, 5) }, "jobs lost: 1, want 0"},
		{"confirmation lost", func(f *facts) { delete(f.confirmed, 5) }, "jobs lost: 1, want 0"},
		{"confirmed twice", func(f *facts) { f.confirmed[5]++ }, "confirmations made twice: 1, want 0"},
		{"confirmed twice beside one lost", func(f *facts) { f.confirmed[5]++; delete(f.confirmed, 6) }, "confirmations made twice: 1, want 0"},
		{"receiver without trouble", func(f *facts) { f.troubles = 0 }, "tried again: 0, want at least 1"},
		{"kill without effect", func(f *facts) { f.delivered[1] = 1 }, "what was held: 0, want 1 to 2"},
		{"repeated though not held", func(f *facts) { f.delivered[5]++ }, "without a reason: 1, want 0"},
		{"held and repeated too often", func(f *facts) { f.delivered[1]++ }, "without a reason: 1, want 0"},
		{"job missing", func(f *facts) { f.jobs[queue.StatusCompleted]-- }, "jobs completed: 3599, want 3600"},
		{"job dead", func(f *facts) { f.jobs[queue.StatusDead]++ }, "jobs dead: 1, want 0"},
		{"job waits", func(f *facts) { f.jobs[queue.StatusPending]++ }, "jobs still open: 1, want 0"},
		{"job runs", func(f *facts) { f.jobs[queue.StatusRunning]++ }, "jobs still open: 1, want 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := goodFacts()
			tt.doctor(&f)
			err := report(io.Discard, audit(f), f.took)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("audit says %v, want %q in it", err, tt.want)
			}
		})
	}
}
