package demo

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestCheck: an account that is not as wanted is an error that names what is wrong.
func TestCheck(t *testing.T) {
	dsn := postgrestest.DSN(t)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const rows = `CREATE TABLE orders AS SELECT generate_series(1, 2) AS id; CREATE TABLE receipts (order_id bigint);
		INSERT INTO errand.jobs (queue, payload, status, attempts) VALUES ('q', '1', 'completed', 2), ('q', '1', 'dead', 5)`
	if _, err := db.ExecContext(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := (Account{Orders: 2, Completed: 1, Other: 1, Runs: 7}).check(t.Context(), dsn, t.Output()); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	err = Account{Orders: 2, Receipts: 1, Completed: 2, Other: 1, Runs: 7}.check(t.Context(), dsn, t.Output())
	if want := "demo: 0 receipts, want 1\ndemo: 1 jobs completed, want 2"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestWork: the worker stops when the jobs are done, and gives up in the end if they
// never are.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		for range 3 {
			if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		done := queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })
		worker := engine.Worker{Backend: q, Handler: done, Logger: slog.New(slog.DiscardHandler)}
		if err := work(t.Context(), worker, 3); err != nil {
			t.Errorf("got %v, want no error", err)
		}
		err := work(t.Context(), worker, 4)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "3 of 4") {
			t.Errorf("got %v, want %v and 3 of 4", err, context.DeadlineExceeded)
		}
	})
}
