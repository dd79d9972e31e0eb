package dburl_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var greeting = queue.NewKind[string]("greeting")

// backends are a URL of each scheme, of databases that are this test's own.
var backends = []struct {
	scheme string
	url    func(t *testing.T) string
}{
	{dburl.Postgres, func(t *testing.T) string { return postgrestest.DSN(t) + "&binary_parameters=yes" }}, // as lib/pq gets it
	{dburl.SQLite, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "a.db") }},
	{dburl.Redis, func(t *testing.T) string { return redisURL(t) }},
	{dburl.Memory, func(*testing.T) string { return "memory:" }},
}

// TestWork: on each backend a job is enqueued, in a transaction where there is one, and a worker
// runs and settles it.
func TestWork(t *testing.T) {
	for _, b := range backends {
		t.Run(b.scheme, func(t *testing.T) {
			d := open(t, b.url(t))
			if got, want := d.Scheme, b.scheme; got != want {
				t.Fatalf("scheme %s, want %s", got, want)
			}
			for range 2 { // the second has nothing to do
				if err := d.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			job := greeting.New("hello")
			enqueue(t, d, job)
			if got, want := work(t, d), "hello"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			inspector, ok := driver.As[driver.Inspector](d.Queue)
			if !ok {
				t.Fatalf("%T is no Inspector", d.Queue)
			}
			r, ok, err := inspector.Job(t.Context(), job.ID)
			if !ok || err != nil || r.Status != queue.StatusCompleted {
				t.Errorf("got %s, %v, %v, want %s", r.Status, ok, err, queue.StatusCompleted)
			}
		})
	}
}

func enqueue(t *testing.T, d *dburl.Database, job *queue.Job) {
	t.Helper()
	if d.DB == nil {
		if err := d.Queue.Enqueue(t.Context(), nil, job); err != nil {
			t.Fatal(err)
		}
		return
	}
	err := inTx(t.Context(), d.DB, func(tx *sql.Tx) error { return d.Queue.Enqueue(t.Context(), tx, job) })
	if err != nil {
		t.Fatal(err)
	}
}

func inTx(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// work runs a worker for one job, and returns its payload when it has been settled.
func work(t *testing.T, d *dburl.Database) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var got string
	mux := queue.NewMux()
	greeting.Handle(mux, func(_ context.Context, _ *queue.Job, text string) error {
		got = text
		stop() // Run settles what has been started
		return nil
	})
	if err := (engine.Worker{Backend: d.Queue, Handler: mux, Logger: slog.New(slog.DiscardHandler)}).Run(ctx); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestRetention: each backend is told how long jobs are kept.
func TestRetention(t *testing.T) {
	for _, b := range backends {
		t.Run(b.scheme, func(t *testing.T) {
			d, err := dburl.Open(b.url(t), dburl.Options{Retention: queue.Retention{Completed: -1, Dead: -1}})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if err := d.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := d.Queue.Enqueue(t.Context(), nil, greeting.New("one"), greeting.New("two")); err != nil {
				t.Fatal(err)
			}
			end(t, d, queue.Done, queue.Dead)
			if err := prune(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			inspector, _ := driver.As[driver.Inspector](d.Queue)
			if left, err := inspector.Counts(t.Context()); err != nil || len(left) > 0 {
				t.Errorf("got %v, %v, want nothing left", left, err)
			}
		})
	}
}

// end claims as many jobs as there are actions, and settles them so.
func end(t *testing.T, d *dburl.Database, actions ...queue.OutcomeAction) {
	t.Helper()
	jobs, err := d.Queue.Claim(t.Context(), queue.ClaimRequest{
		Queues: []string{queue.DefaultQueue}, Limit: len(actions), Lease: time.Minute, Worker: "test",
	})
	if err != nil || len(jobs) != len(actions) {
		t.Fatalf("claimed %d, %v, want %d", len(jobs), err, len(actions))
	}
	for i, action := range actions {
		lost, err := d.Queue.Settle(t.Context(), nil, queue.Outcome{Job: jobs[i], Action: action})
		if err != nil || len(lost) > 0 {
			t.Fatalf("lost %v, %v, want none", lost, err)
		}
	}
}

// prune prunes until there is nothing more to look at.
func prune(ctx context.Context, d *dburl.Database) error {
	reclaimer, ok := driver.As[driver.Reclaimer](d.Queue)
	if !ok {
		return fmt.Errorf("%T is no Pruner", d.Queue)
	}
	for more := true; more; {
		var err error
		if _, more, err = reclaimer.Prune(ctx); err != nil {
			return err
		}
	}
	return nil
}

// The same program on PostgreSQL, on a SQLite file, or in memory: a service takes the URL from its
// environment.
func ExampleOpen() {
	d, err := dburl.Open("memory:", dburl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	ctx, stop := context.WithCancel(context.Background())
	if err := d.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	if err := d.Queue.Enqueue(ctx, nil, greeting.New("hello")); err != nil {
		log.Fatal(err)
	}
	mux := queue.NewMux()
	greeting.Handle(mux, func(_ context.Context, _ *queue.Job, text string) error {
		fmt.Println(text)
		stop() // a service goes on
		return nil
	})
	if err := (engine.Worker{Backend: d.Queue, Handler: mux}).Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("in", d.Description)
	// Output:
	// hello
	// in memory of this process
}
