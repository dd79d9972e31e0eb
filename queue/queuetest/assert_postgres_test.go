package queuetest_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestWantJobInPostgres: the same assertions work over a real database, where
// arguments have become jsonb, and a transaction shows when it has committed.
func TestWantJobInPostgres(t *testing.T) {
	db := postgrestest.Open(t)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatalf("postgres.New: %v", err)
	}
	type args struct {
		Rate  float64
		Notes map[string]any
		At    time.Time
	}
	kind := queue.Kind[args]{Name: "report", Queue: "slow"}
	want := args{Rate: 1e21, Notes: map[string]any{"zz": "<é>", "a": []any{nil, 0.5}}, At: time.Unix(1e9, 0).UTC()}

	tx := beginSQL(t, db)
	later := kind.New(want)
	later.Delay = time.Hour
	if err := q.Enqueue(t.Context(), tx, later); err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	wantMessage(t, "Fatal: no job report was enqueued, nor any other", func(t testing.TB) { queuetest.WantJob(t, q, kind, want) })
	if err := tx.Commit(); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	got := queuetest.WantJob(t, q, kind, want, queuetest.InQueue("slow"), queuetest.DueIn(time.Hour), queuetest.Times(1))
	if got.ID != later.ID || got.Status != queue.StatusPending {
		t.Errorf("got job %d, %s; want %d, pending", got.ID, got.Status, later.ID)
	}
	queuetest.WantNoJob(t, q, letters)
	want.Notes["a"] = nil
	wantMessage(t, `Fatal: no job report with {"Rate":1e+21,"Notes":{"a":null,"zz":"\u003cé\u003e"},"At":"2001-09-09T01:46:40Z"} was enqueued; nearest of 1:
  job 1 (pending): Notes.a: got [null,0.5], want null`, func(t testing.TB) { queuetest.WantJob(t, q, kind, want) })
	wantMessage(t, "Fatal: queuetest: Through: only the queue in memory remembers handles, not *postgres.Backend",
		func(t testing.TB) { queuetest.WantJob(t, q, kind, want, queuetest.Through(tx)) })
}

func beginSQL(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatalf("BeginTx: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}
