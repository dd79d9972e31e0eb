package explain_test

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestWorkerElsewhere: where no worker is known, explain says where it has looked, and names
// workers of other schemas and sessions on other databases.
func TestWorkerElsewhere(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	other := postgres.Options{Schema: "other"}
	if err := postgres.Migrate(t.Context(), db, other); err != nil {
		t.Fatal(err)
	}
	opstest.Report(t, opstest.Backend(t, db, other), opstest.Idle)
	named := func(u *url.URL) {
		query := u.Query()
		query.Set("application_name", "errand at shop")
		u.RawQuery = query.Encode()
	}
	elsewhere := opstest.OpenPQ(t, opstest.Change(t, postgrestest.DSN(t), named))
	opstest.Exec(t, elsewhere, `SELECT`) // its session stays
	a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})})
	opstest.WantReason(t, a, "no-worker")
	r := a.Reasons[0]
	if !strings.HasPrefix(r.Verdict, "No worker is alive that reports itself to the schema errand of the database ") {
		t.Errorf("verdict %s", r.Verdict)
	}
	text := strings.Join(r.Evidence, "\n")
	for _, want := range []string{"1 worker alive in the schema other of this database", `on the database `, `(application "errand at shop")`} {
		if !strings.Contains(text, want) {
			t.Errorf("evidence %s, want %s", text, want)
		}
	}
}

// TestWorkerOfOtherFile: where no worker uses the SQLite file, explain says which file it has
// looked into.
func TestWorkerOfOtherFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	_, q := opstest.OpenFile(t, path)
	_, other := opstest.FreshFile(t)
	opstest.Report(t, other, opstest.Idle)
	a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})})
	opstest.WantReason(t, a, "no-worker")
	if want := "No worker is alive that reports itself to the file " + path + "."; a.Reasons[0].Verdict != want {
		t.Errorf("got %s, want %s", a.Reasons[0].Verdict, want)
	}
}

// TestQueuesServed: if no queue is spelled like the one that no worker serves, explain lists those
// that are served.
func TestQueuesServed(t *testing.T) {
	t.Parallel()
	_, q := opstest.Fresh(t)
	opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{"emails", "reports"}})
	opstest.Report(t, q, driver.WorkerInfo{Name: "v", Queues: []string{"emails", "reports"}})
	for name, want := range map[string]string{"mails": "similar names: emails", "billing": "live workers, all of other queues: 2 (emails, reports)"} {
		a := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: name})})
		opstest.WantReason(t, a, "queue-not-served")
		if got := strings.Join(a.Reasons[0].Evidence, "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestSilentHolder: a job whose worker has not reported itself for a while does not just run.
func TestSilentHolder(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	id := opstest.Enqueue(t, q, queue.Job{})
	opstest.Claim(t, q, "", time.Minute)
	opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{queue.DefaultQueue}})
	opstest.WantReason(t, opstest.Explain(t, q, explain.Question{ID: id}), "running")
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - interval '18 seconds'`)
	a := opstest.Explain(t, q, explain.Question{ID: id})
	opstest.WantReason(t, a, "holder-silent")
	r := a.Reasons[0]
	if !strings.Contains(r.Verdict, "has been silent for 18s") && !strings.Contains(r.Verdict, "has been silent for 19s") {
		t.Errorf("verdict %s", r.Verdict)
	}
	if !strings.Contains(r.Remedy, "its lease ends in ") {
		t.Errorf("remedy %s", r.Remedy)
	}
	cancel(t, q, id)
	if r := opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0]; r.ID != "holder-silent" || !strings.Contains(r.Verdict, "It was cancelled ") {
		t.Errorf("cancelled: %+v", r)
	}
}

// TestCancelledAndLost: that a job was cancelled is said also if its lease has expired since.
func TestCancelledAndLost(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			id := opstest.Enqueue(t, q, queue.Job{})
			opstest.Claim(t, q, "", time.Millisecond)
			cancel(t, q, id)
			time.Sleep(50 * time.Millisecond)
			a := opstest.Explain(t, q, explain.Question{ID: id})
			opstest.WantReason(t, a, "lease-expired")
			if r := a.Reasons[0]; !strings.Contains(r.Verdict, "It was cancelled ") || !strings.Contains(r.Remedy, "What reclaims it cancels it") {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestKeyOfTwoQueues: a key that jobs of two queues have is answered for the newest, and the other
// one is named.
func TestKeyOfTwoQueues(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			opstest.Report(t, q, opstest.Idle)
			other := opstest.Enqueue(t, q, queue.Job{Key: "k"})
			newest := opstest.Enqueue(t, q, queue.Job{Key: "k", Queue: "q"})
			a := opstest.Explain(t, q, explain.Question{Key: "k"})
			if a.Job == nil || a.Job.ID != newest || !strings.HasSuffix(strings.Join(a.Unknown, "\n"), fmt.Sprintf("The others: errand explain %d", other)) {
				t.Errorf("got job %+v, not known: %q", a.Job, a.Unknown)
			}
			if a := opstest.Explain(t, q, explain.Question{Key: "k", Queue: "q"}); len(a.Unknown) > 0 {
				t.Errorf("with its queue: not known: %q", a.Unknown)
			}
		})
	}
}
