package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

type Welcome struct{ UserID int64 }

// WelcomeEmail is declared once. The code that enqueues and the code that handles both use it.
var WelcomeEmail = queue.NewKind[Welcome]("email.welcome")

func Example() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})

	// The second parameter is the *sql.Tx of the business write, or nil if there is none.
	if err := q.Enqueue(ctx, nil, WelcomeEmail.New(Welcome{UserID: 42})); err != nil {
		log.Fatal(err)
	}

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		fmt.Printf("welcome, user %d (attempt %d)\n", w.UserID, job.Attempt)
		return nil
	})
	if _, err := q.Drain(ctx, mux); err != nil { // in a program: engine.Worker{Backend: q, Handler: mux}.Run(ctx)
		log.Fatal(err)
	}
	// Output: welcome, user 42 (attempt 1)
}

func ExampleEnqueuer() {
	var q queue.Enqueuer // in a program: postgres.New(db, postgres.Options{})
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

func ExampleKind() {
	type Report struct{ Month string }
	// A literal gives the jobs of a kind defaults.
	report := queue.Kind[Report]{Name: "report.build", Queue: "slow", MaxAttempts: 3, Timeout: time.Minute}

	job := report.New(Report{Month: "2026-11"})
	job.Delay = time.Hour // any field may be set before Enqueue
	fmt.Println(job.Kind, job.Queue, job.MaxAttempts, string(job.Payload))

	args, err := report.Args(job)
	fmt.Println(args.Month, err)
	// Output:
	// report.build slow 3 {"Month":"2026-11"}
	// 2026-11 <nil>
}

func ExampleMux() {
	type Charge struct{ Cents int }
	charge := queue.NewKind[Charge]("card.charge")

	mux := queue.NewMux()
	charge.Handle(mux, func(ctx context.Context, job *queue.Job, c Charge) error {
		fmt.Println("charged", c.Cents)
		return nil
	})
	// A handler without a Kind gets the payload as it is.
	mux.Handle("audit", queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		fmt.Println("audited", string(job.Payload))
		return nil
	}))
	fmt.Println(mux.Kinds())

	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	err := q.Enqueue(ctx, nil, charge.New(Charge{Cents: 250}), &queue.Job{Kind: "audit", Payload: []byte(`[7]`)})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := q.Drain(ctx, mux); err != nil { // in a program: engine.Worker{Backend: q, Handler: mux}.Run(ctx)
		log.Fatal(err)
	}
	// Output:
	// [audit card.charge]
	// charged 250
	// audited [7]
}

func ExampleChain() {
	timed := func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			fmt.Println("before", job.Kind)
			err := next.HandleJob(ctx, job)
			fmt.Println("after", job.Kind)
			return err
		})
	}
	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		fmt.Println("welcome, user", w.UserID)
		return nil
	})
	handler := queue.Chain(mux, timed) // a Worker still finds the Mux
	_ = handler.HandleJob(context.Background(), WelcomeEmail.New(Welcome{UserID: 42}))
	// Output:
	// before email.welcome
	// welcome, user 42
	// after email.welcome
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

func ExampleErrSettled() {
	var db *sql.DB
	var q queue.Consumer

	// The effect and the settling are one transaction. If this worker has lost the job meanwhile,
	// neither happens.
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
		return queue.ErrSettled
	}
	_ = handler
}
