package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestFlow: the program's audit finds nothing wrong, and its picture is drawn.
func TestFlow(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "flow.db") },
		"postgres": func(t *testing.T) string { return postgrestest.DSN(t) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "sqlite" && !extent.Whole() {
				t.Skip("ERRAND_TESTS=whole runs it: repeats on SQLite what postgres proves")
			}
			svg := filepath.Join(t.TempDir(), "flow.svg")
			if err := run(t.Context(), open(t), svg); err != nil {
				t.Error(err)
			}
			picture, err := os.ReadFile(svg)
			if err != nil || !bytes.HasPrefix(picture, []byte("<svg ")) || !bytes.Contains(picture, []byte("flood cancelled")) {
				t.Errorf("the picture: %v, %.80s", err, picture)
			}
		})
	}
}

// TestAudit: the audit notices what is wrong.
func TestAudit(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	good := func() facts {
		f := facts{
			highest: perTenant, entries: 10, cancelledIDs: 5,
			counts:  []queue.StatusCount{{Queue: "webhooks", Status: queue.StatusCompleted, Jobs: 3}, {Queue: "webhooks", Status: queue.StatusCancelled, Jobs: 5}},
			ticks:   []time.Time{at, at.Add(time.Second), at.Add(2 * time.Second)},
			paused:  at.Add(time.Second),
			resumed: at.Add(2 * time.Second),
		}
		for i := range 40 {
			begun := at.Add(3*time.Second + time.Duration(i)*100*time.Millisecond)
			f.webhooks = append(f.webhooks, webhook("tenant-002", begun))
		}
		return f
	}
	if err := report(&bytes.Buffer{}, audit(good())); err != nil {
		t.Fatalf("good facts: %v", err)
	}
	for name, spoil := range map[string]func(f *facts){
		"three at once": func(f *facts) { f.highest++ },
		"three in 50 ms": func(f *facts) {
			for i := range 3 {
				f.webhooks = append(f.webhooks, webhook("tenant-003", at.Add(5*time.Second+time.Duration(i)*25*time.Millisecond)))
			}
		},
		"begun in the pause":      func(f *facts) { f.webhooks[0].StartedAt = at.Add(1500 * time.Millisecond) },
		"a ledger entry too soon": func(f *facts) { f.mistakes = append(f.mistakes, "account-01: entry 3 after 1") },
		"a tick missed":           func(f *facts) { f.ticks = append(f.ticks[:1], f.ticks[2]) },
		"a tick doubled":          func(f *facts) { f.ticks = append(f.ticks, f.ticks[2]) },
		"nothing cancelled":       func(f *facts) { f.counts = f.counts[:1] },
		"a job lost":              func(f *facts) { f.counts = append(f.counts, queue.StatusCount{Status: queue.StatusPending, Jobs: 1}) },
	} {
		f := good()
		spoil(&f)
		if err := report(&bytes.Buffer{}, audit(f)); err == nil {
			t.Errorf("%s: the audit finds nothing wrong", name)
		}
	}
}

func webhook(tenant string, begun time.Time) (r queue.Record) {
	r.Kind, r.Group, r.ScheduledAt, r.StartedAt, r.Status = TenantWebhook.Name, tenant, begun, begun, queue.StatusCompleted
	return r
}
