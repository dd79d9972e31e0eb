package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// tempFile is where the examples keep their file.
func tempFile() (path string, remove func()) {
	dir, err := os.MkdirTemp("", "errand")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "app.db"), func() { _ = os.RemoveAll(dir) }
}

type welcome struct {
	UserID int `json:"user_id"`
}

// A job is written in the transaction of what it belongs to, and run by a worker of the same
// program.
func Example() {
	path, remove := tempFile()
	defer remove()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	db, err := sqlite.Open("sqlite", path) // import _ "modernc.org/sqlite"
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := sqlite.Migrate(ctx, db, sqlite.Options{}); err != nil {
		log.Fatal(err)
	}
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)`); err != nil {
		log.Fatal(err)
	}
	email := queue.NewKind[welcome]("email.welcome")

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO users (id, name) VALUES (42, 'Alice')`); err != nil {
		log.Fatal(err)
	}
	if err := q.Enqueue(ctx, tx, email.New(welcome{UserID: 42})); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}

	mux := queue.NewMux()
	email.Handle(mux, func(ctx context.Context, job *queue.Job, w welcome) error {
		fmt.Println("welcome, user", w.UserID)
		stop()
		return nil
	})
	if err := (engine.Worker{Backend: q, Handler: mux}).Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: welcome, user 42
}

// DSN is for those who call sql.Open themselves. It is the same for either driver.
func ExampleDSN() {
	fmt.Println(sqlite.DSN("app.db"))
	// Output: file:app.db?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate&_busy_timeout=30000&_journal_mode=WAL&_synchronous=FULL
}

// New says what cannot work.
func ExampleNew() {
	db, err := sqlite.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	_, err = sqlite.New(db, sqlite.Options{})
	fmt.Println(err)
	// Output: queue: invalid DB: a database in memory: each connection has one of its own; use a file, or queuetest.New in tests
}

// The migrations can be printed, for those who run them with a tool of their own.
func ExampleMigrations() {
	steps, err := sqlite.Migrations(sqlite.Options{Prefix: "jobs_"})
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range steps {
		fmt.Printf("%04d_%s.sql: %d bytes\n", step.Version, step.Name, len(step.SQL))
	}
}

// Jobs that are done need not be kept: settling them deletes them.
func ExampleOptions() {
	path, remove := tempFile()
	defer remove()
	db, err := sqlite.Open("sqlite", path)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	o := sqlite.Options{Prefix: "work_", Retention: queue.Retention{Completed: -1}}
	if err := sqlite.Migrate(ctx, db, o); err != nil {
		log.Fatal(err)
	}
	q, err := sqlite.New(db, o)
	if err != nil {
		log.Fatal(err)
	}
	if err := q.Enqueue(ctx, nil, &queue.Job{Kind: "cleanup"}); err != nil {
		log.Fatal(err)
	}
	jobs, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "me"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := q.Settle(ctx, nil, queue.Outcome{Job: jobs[0]}); err != nil {
		log.Fatal(err)
	}
	counts, err := q.Counts(ctx)
	fmt.Println(len(jobs), counts, err)
	// Output: 1 [] <nil>
}
