// Command riversqlite is River on SQLite as a child of bench: it speaks the protocol of package child on its standard input and
// output. Its argument is the Spec.
//
// It is a module of its own: the newest driver for SQLite that was published when this was written, v0.47.0, compiles with River v0.47.0
// alone, while bench measures a newer River on Postgres. For the same reason it must neither require bench, whose version of River would be
// taken, nor stand in go.work. It has a few lines of package child again.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// spec says what to do.
type spec struct {
	Part       string        `json:"part"`
	DSN        string        `json:"dsn"`
	First      int           `json:"first"`      // number of the jobs to load
	Jobs       int           `json:"jobs"`       // how many to enqueue
	Batch      int           `json:"batch"`      // how many a call
	Goroutines int           `json:"goroutines"` // how many enqueue at once
	Duration   time.Duration `json:"duration"`   // for how long
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) != 1 {
		return errors.New("want one argument, the spec")
	}
	var s spec
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", s.DSN)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // as River advises
	q := &queue{spec: s, db: db}
	switch s.Part {
	case "install":
		return q.install(ctx)
	case "load":
		return q.load(ctx)
	case "enqueue":
		return measure(ctx, q.enqueue)
	case "singles":
		return measure(ctx, q.singles)
	case "work":
		return measure(ctx, q.work)
	}
	return fmt.Errorf("no part %q", s.Part)
}

// queue is River on a file.
type queue struct {
	spec
	db *sql.DB
}

// args is what every job carries, for every system.
type args struct {
	Order int    `json:"order"`
	To    string `json:"to"`
}

// Kind implements [river.JobArgs].
func (args) Kind() string { return "bench.order" }

func newArgs(number int) args { return args{Order: number, To: "alice@example.com"} }

type worker struct {
	river.WorkerDefaults[args]
	handle func(int)
}

// Work implements [river.Worker].
func (w *worker) Work(_ context.Context, job *river.Job[args]) error {
	w.handle(job.Args.Order)
	return nil
}

// quiet logs errors alone: what goes wrong in a measurement is to be seen.
var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

func (q *queue) install(ctx context.Context) error {
	m, err := rivermigrate.New(riversqlite.New(q.db), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (q *queue) client() (*river.Client[*sql.Tx], error) {
	return river.NewClient(riversqlite.New(q.db), &river.Config{Logger: quiet})
}

// load enqueues jobs that are not measured.
func (q *queue) load(ctx context.Context) error {
	client, err := q.client()
	if err != nil {
		return err
	}
	return insert(ctx, client, q.First, q.Jobs)
}

func insert(ctx context.Context, client *river.Client[*sql.Tx], first, n int) error {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = newArgs(first + i)
	}
	written, err := client.InsertManyFast(ctx, jobs)
	if err == nil && written != n {
		err = fmt.Errorf("%d of %d jobs written", written, n)
	}
	return err
}

// work works with the settings of River's own benchmark until ctx ends.
func (q *queue) work(ctx context.Context, c *child) (map[string]float64, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{handle: c.count})
	client, err := river.NewClient(riversqlite.New(q.db), &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
		Workers:           workers,
		Logger:            quiet,
	})
	if err != nil {
		return nil, err
	}
	ctx, err = c.begin(ctx)
	if err != nil {
		return nil, err
	}
	running := context.WithoutCancel(ctx)
	if err := client.Start(running); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, client.Stop(running)
}
