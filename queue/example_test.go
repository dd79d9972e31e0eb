package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

type Welcome struct{ UserID int64 }

// WelcomeEmail is declared once, and used by those who enqueue and those who handle.
var WelcomeEmail = queue.NewKind[Welcome]("email.welcome")

func Example() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})

	// The second parameter is the *sql.Tx of the business write; nil stands alone.
	if err := q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 42})); err != nil {
		log.Fatal(err)
	}

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		fmt.Printf("welcome, user %d (attempt %d)\n", w.UserID, job.Attempt)
		return nil
	})
	if _, err := q.Drain(ctx, mux); err != nil { // in a program: queue.Worker{Backend: q, Handler: mux}.Run(ctx)
		log.Fatal(err)
	}
	// Output: welcome, user 42 (attempt 1)
}

func ExampleEnqueuer() {
	var q queue.Enqueuer // what application code needs of errand
	var db *sql.DB

	signUp := func(ctx context.Context, email string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		var id int64
		if err := tx.QueryRowContext(ctx, `INSERT INTO users (email) VALUES ($1) RETURNING id`, email).Scan(&id); err != nil {
			return err
		}
		if err := q.Enqueue(ctx, tx, WelcomeEmail.New(Welcome{UserID: id})); err != nil {
			return err
		}
		return tx.Commit() // the user and the job, or neither
	}
	_ = signUp
}

func ExampleWorker() {
	var q queue.Queue
	mux := queue.NewMux()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := queue.Worker{
		Backend:     q,
		Handler:     mux,
		Queues:      []string{"critical", queue.DefaultQueue},
		Concurrency: 50,
	}.Run(ctx) // until a signal comes; then it finishes what it has begun
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleRetryAfter() {
	show := func(err error) {
		o, _ := queue.OutcomeOf(context.Background(), &queue.Job{Attempt: 1, MaxAttempts: 5}, err)
		fmt.Println(o.Action, o.Delay)
	}
	busy := errors.New("503 Service Unavailable")
	show(nil)
	show(queue.RetryAfter(10*time.Second, busy))
	show(queue.Discard(errors.New("no such user")))
	show(fmt.Errorf("not yet: %w", queue.Snooze(time.Hour)))
	// Output:
	// done 0s
	// retry 10s
	// dead 0s
	// release 1h0m0s
}

func ExampleSettled() {
	var db *sql.DB
	var q queue.Consumer

	// The effect and the settling are one transaction: if this worker has lost the
	// job meanwhile, neither happens.
	handler := func(ctx context.Context, job *queue.Job, w Welcome) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		lost, err := q.Settle(ctx, tx, queue.Outcome{Job: job, Action: queue.Done})
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			return queue.ErrLost
		}
		if _, err := tx.ExecContext(ctx, `UPDATE users SET welcomed = true WHERE id = $1`, w.UserID); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		return queue.Settled
	}
	_ = handler
}
