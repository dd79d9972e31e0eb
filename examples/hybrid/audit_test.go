package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis/redistest"
)

// TestExplain: one line says what to install, or that the program was interrupted.
func TestExplain(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	err := explain(ctx, fmt.Errorf("cluster: %w", redistest.ErrNoServer))
	if want := "there is no redis-server: install it first, on Debian with apt-get install redis-server"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	interrupted, other := errors.New("interrupt signal received"), errors.New("connection refused")
	if err := explain(ctx, other); !errors.Is(err, other) {
		t.Errorf("got %q, want %q", err, other)
	}
	cancel(interrupted)
	if err := explain(ctx, other); !errors.Is(err, interrupted) {
		t.Errorf("after Ctrl-C: got %q, want %q", err, interrupted)
	}
}

// goodFacts are those of a day on which one click was handled twice because of the failover, and
// the answer for another one was lost.
func goodFacts() facts {
	l := newLedger()
	l.killed = time.Now()
	l.mended = l.killed.Add(3 * time.Second)
	before := l.killed.Add(-time.Minute)
	for id := range int64(orders) {
		for view := range viewsPerOrder {
			name := fmt.Sprintf("view %d of %d", view, id)
			l.acknowledged[name], l.runs[name] = true, []time.Time{before}
		}
		if id%declineEvery == 0 {
			l.noteOrder(id, errDeclined)
			continue
		}
		l.noteOrder(id, nil)
		l.runs[orderClick(id)] = []time.Time{before}
	}
	l.runs["view 1 of 1"] = []time.Time{before, l.mended}
	delete(l.acknowledged, "view 2 of 2")
	l.unanswered["view 2 of 2"] = true
	n := len(l.committed)
	return facts{ledger: l, orders: n, confirmations: n, confirmed: n}
}

func TestAuditPasses(t *testing.T) {
	var out strings.Builder
	if err := report(&out, goodFacts()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "\naudit passed: no acknowledged job was lost") {
		t.Errorf("the report:\n%s", out.String())
	}
}

// TestAuditFails: the audit sees what may go wrong, and says it.
func TestAuditFails(t *testing.T) {
	for want, spoil := range map[string]func(f *facts){
		"orders committed: 269, want 270":                     func(f *facts) { f.committed = f.committed[1:] },
		"orders in Postgres: 271, want 270":                   func(f *facts) { f.orders++ },
		"orders confirmed: 269, want 270":                     func(f *facts) { f.confirmed-- },
		"orders confirmed twice: 1, want 0":                   func(f *facts) { f.confirmations++ },
		"orders rolled back: 29, want 30":                     func(f *facts) { f.declined = f.declined[1:] },
		"clicks of orders that were rolled back: 1, want 0":   func(f *facts) { f.noteRun(orderClick(0)) },
		"of which lost: 1, want 0":                            func(f *facts) { delete(f.runs, "view 3 of 3") },
		"of which handled: 3268, want 3269":                   func(f *facts) { delete(f.runs, orderClick(1)) },
		"clicks acknowledged: 0, want 1635 to 3270":           func(f *facts) { clear(f.acknowledged) },
		"clicks handled twice for no reason: 1, want 0":       func(f *facts) { f.mended = f.killed.Add(-time.Hour) },
		"clicks of which the ledger does not know: 1, want 0": func(f *facts) { f.noteRun("view 99 of 99") },
		"jobs dead: 1, want 0":                                func(f *facts) { f.dead++ },
		"jobs still open: 1, want 0":                          func(f *facts) { f.open++ },
		"1 orders failed, the first with: connection refused": func(f *facts) { f.noteOrder(1, errors.New("connection refused")) },
	} {
		f := goodFacts()
		spoil(&f)
		if err := report(new(strings.Builder), f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestTwice: a click that was handled again before the master was killed has no reason, unless the
// worker has lost its lease.
func TestTwice(t *testing.T) {
	f := goodFacts()
	early := f.killed.Add(-time.Second)
	f.runs["view 4 of 4"] = []time.Time{early, early}
	if explained, unexplained := f.repeated(); explained != 1 || unexplained != 1 {
		t.Errorf("got %d with and %d without a reason, want 1 and 1", explained, unexplained)
	}
	f.lost["view 4 of 4"] = true
	if explained, unexplained := f.repeated(); explained != 2 || unexplained != 0 {
		t.Errorf("after a lost lease: got %d with and %d without a reason, want 2 and 0", explained, unexplained)
	}
}
