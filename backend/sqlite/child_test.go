package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// childVariable tells this binary that it is a child of a test.
const childVariable = "ERRAND_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := child(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child plays a role until its standard input is closed. It reports each failure on standard error.
func child(role, driver, path string, args []string) error {
	db, err := sqlite.Open(driver, path)
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	switch role {
	case "sleeper":
		return doze(ctx, q)
	case "seller":
		defer fmt.Println("sold")
		return sell(ctx, db, q, 6)
	case "migrator":
		defer fmt.Println("migrated")
		return sqlite.Migrate(ctx, db, sqlite.Options{})
	case "holder":
		return hold(ctx, q)
	case "churner":
		return churn(ctx, q, args[0])
	case "starved":
		return starve(ctx, db, q)
	}
	jobs, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	lease, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	enqueued := make(chan error, 1)
	go func() { enqueued <- sell(ctx, db, q, jobs) }()
	if err := work(ctx, db, q, lease); err != nil {
		return err
	}
	return <-enqueued
}

// sell enqueues jobs, every second of them in the transaction that writes its order, and says the
// id of each once it is committed.
func sell(ctx context.Context, db *sql.DB, q *sqlite.Backend, jobs int) error {
	for i := range jobs {
		job := &queue.Job{Kind: "plain"}
		if i%2 == 1 {
			job.Kind = "order"
		}
		if err := sellOne(ctx, db, q, job); err != nil {
			return fmt.Errorf("job %d of %d: %w", i, jobs, err)
		}
		fmt.Println(job.ID)
	}
	return nil
}

func sellOne(ctx context.Context, db *sql.DB, q *sqlite.Backend, job *queue.Job) error {
	if job.Kind == "plain" {
		return q.Enqueue(ctx, nil, job)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback()
	if err := q.Enqueue(ctx, tx, job); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (job) VALUES (?1)`, job.ID); err != nil {
		return err
	}
	return tx.Commit()
}

// work runs jobs whose effect is a row. A warning that leases have run out is what a killed process
// leaves behind; errors, of the worker's calls or of the handler, there are none.
func work(ctx context.Context, db *sql.DB, q *sqlite.Backend, lease time.Duration) error {
	handler := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		_, err := db.ExecContext(ctx, `INSERT INTO effects (job) VALUES (?1)`, job.ID)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "handler:", err)
		}
		return err
	})
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return engine.Worker{Backend: q, Handler: handler, Concurrency: 4, Lease: lease, Logger: log}.Run(ctx)
}

// doze sleeps as a worker does, and says when it sleeps and when it is woken.
func doze(ctx context.Context, q *sqlite.Backend) error {
	woken := make(chan struct{}, 1)
	listening := make(chan error, 1)
	queues := []string{queue.DefaultQueue}
	go func() {
		listening <- q.Listen(ctx, "sleeper", queues, func(s driver.Signal) {
			if !s.Jobs {
				return
			}
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	<-woken // when it has begun to listen
	for {
		if _, err := q.Sleep(ctx, "sleeper", queues); err != nil && ctx.Err() == nil {
			return err
		}
		fmt.Println("asleep")
		select {
		case <-woken:
			fmt.Println("woken")
		case <-ctx.Done():
			return <-listening
		}
	}
}

// hold has the turn, and the write lock, until ctx ends.
func hold(ctx context.Context, q *sqlite.Backend) error {
	tx, end, err := q.BeginTx(context.WithoutCancel(ctx), nil, nil)
	if err != nil {
		return err
	}
	fmt.Println("held")
	<-ctx.Done()
	err = tx.Rollback()
	end()
	return err
}

// churn enqueues, claims and settles jobs of its own queue as fast as it can, four at a time.
func churn(ctx context.Context, q *sqlite.Backend, name string) error {
	ended := make(chan error)
	for i := range 4 {
		req := queue.ClaimRequest{Queues: []string{fmt.Sprint(name, i)}, Limit: 10, Lease: time.Minute, Worker: name}
		go func() {
			ended <- churnOne(ctx, q, req)
		}()
	}
	var errs []error
	for range 4 {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

func churnOne(ctx context.Context, q *sqlite.Backend, req queue.ClaimRequest) error {
	for ctx.Err() == nil {
		if err := q.Enqueue(context.Background(), nil, &queue.Job{Queue: req.Queues[0], Kind: "churned"}); err != nil {
			return err
		}
		held, err := q.Claim(context.Background(), req)
		if err != nil {
			return err
		}
		for _, job := range held {
			if _, err := q.Settle(context.Background(), nil, queue.Outcome{Job: job}); err != nil {
				return err
			}
		}
	}
	return nil
}

// starve enqueues although all connections of its pool are taken: with a backend that has been
// used, and with a new one.
func starve(ctx context.Context, db *sql.DB, _ *sqlite.Backend) error {
	used, err := sqlite.New(db, sqlite.Options{LockTimeout: time.Second})
	if err != nil {
		return err
	}
	if err := used.Enqueue(ctx, nil, &queue.Job{Kind: "starved"}); err != nil {
		return err
	}
	fresh, err := sqlite.New(db, sqlite.Options{LockTimeout: time.Second})
	if err != nil {
		return err
	}
	const conns = 2
	db.SetMaxOpenConns(conns)
	for range conns {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
	}
	fmt.Println("starved")
	for _, q := range []*sqlite.Backend{used, fresh} {
		fmt.Println(q.Enqueue(ctx, nil, &queue.Job{Kind: "starved"}))
	}
	<-ctx.Done()
	return nil
}
