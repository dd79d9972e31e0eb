package migrating

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/errandhq/errand/backend/postgrestest"
)

// numbered are a River job's arguments. Its kind is not part of them.
type numbered struct {
	N    int `json:"n"`
	kind string
}

func (a numbered) Kind() string { return a.kind }

// harness is a database with errand's schema and River's, and a River client that
// only inserts.
type harness struct {
	db   *sql.DB
	pool *pgxpool.Pool
	*river.Client[pgx.Tx]
}

func withRiver(t *testing.T) harness {
	t.Helper()
	dsn := postgrestest.DSN(t)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	h := harness{db: open(t, "pgx", dsn), pool: pool}
	h.Client = h.client(t, river.Config{})
	return h
}

func (h harness) client(t *testing.T, c river.Config) *river.Client[pgx.Tx] {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	c.TestOnly = true // no pause before its housekeeping
	client, err := river.NewClient(riverpgxv5.New(h.pool), &c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (h harness) insert(t *testing.T, kind string, n int, opts *river.InsertOpts) *rivertype.JobRow {
	t.Helper()
	result, err := h.Insert(t.Context(), numbered{n, kind}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if result.UniqueSkippedAsDuplicate {
		t.Fatalf("River skips job %d as a duplicate", n)
	}
	return result.Job
}

// get is a job as River has it now, nil if it has not.
func (h harness) get(t *testing.T, id int64) *rivertype.JobRow {
	t.Helper()
	job, err := h.JobGet(t.Context(), id)
	if errors.Is(err, rivertype.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// start has a River worker run jobs of a kind and queue. The function that it returns
// waits for as many events as wanted, and stops the worker.
func (h harness) start(t *testing.T, kind, queue string, work func(context.Context, *river.Job[numbered]) error) (await func(want int)) {
	t.Helper()
	client := h.client(t, river.Config{
		Queues:      map[string]river.QueueConfig{queue: {MaxWorkers: 2}},
		Workers:     riverWorkers(kind, work),
		RetryPolicy: onceMore{},
	})
	events, unsubscribe := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobSnoozed)
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(want int) {
		t.Helper()
		defer unsubscribe()
		timeout := time.After(atMost)
		for range want {
			select {
			case <-events:
			case <-timeout:
				t.Fatal("waited too long for River")
			}
		}
		if err := client.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// riverWorkers registers work for a kind, which River otherwise has a type say.
func riverWorkers(kind string, work func(context.Context, *river.Job[numbered]) error) *river.Workers {
	workers := river.NewWorkers()
	river.AddWorkerArgs(workers, numbered{kind: kind}, river.WorkFunc(work))
	return workers
}

// onceMore tries again at once after the first failure, and an hour after others.
type onceMore struct{}

func (onceMore) NextRetry(job *rivertype.JobRow) time.Time {
	if job.Attempt == 1 {
		return time.Now()
	}
	return time.Now().Add(time.Hour)
}

// rows is all that is in river_job, as text.
func (h harness) rows(t *testing.T) (all string) {
	t.Helper()
	if err := h.db.QueryRowContext(t.Context(), `SELECT md5(string_agg(r::text, '' ORDER BY id)) || count(*) FROM river_job r`).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}
