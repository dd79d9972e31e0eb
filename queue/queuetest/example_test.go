package queuetest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

type Welcome struct{ Name string }

var WelcomeEmail = queue.NewKind[Welcome]("email.welcome")

// SignUp is the code under test. All that it needs of the queue is an Enqueuer.
func SignUp(ctx context.Context, tx queue.DB, jobs queue.Enqueuer, name string) error {
	// Here it would insert the user through tx.
	return jobs.Enqueue(ctx, tx, WelcomeEmail.New(Welcome{Name: name}))
}

// A test runs the code, and then what it has enqueued.
func ExampleQueue_Drain() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	if err := SignUp(ctx, nil, q, "Alice"); err != nil {
		fmt.Println(err)
	}

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		fmt.Println("Welcome,", w.Name)
		return nil
	})
	ran, err := q.Drain(ctx, mux)
	fmt.Println(ran, err)
	// Output:
	// Welcome, Alice
	// 1 <nil>
}

// A test looks at what has been enqueued, and at what became of it.
func ExampleQueue_Jobs() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	if err := SignUp(ctx, nil, q, "Bob"); err != nil {
		fmt.Println(err)
	}
	show := func() {
		jobs, _, err := q.Jobs(ctx, queue.Filter{Kind: "email.welcome"})
		if err != nil {
			fmt.Println(err)
		}
		for _, j := range jobs {
			fmt.Printf("%s %s %q\n", j.Payload, j.Status, j.LastError)
		}
	}
	show()

	_, err := q.Drain(ctx, queue.HandlerFunc(func(context.Context, *queue.Job) error {
		return queue.Discard(errors.New("mailbox does not exist"))
	}))
	if err != nil {
		fmt.Println(err)
	}
	show()
	// Output:
	// {"Name":"Bob"} pending ""
	// {"Name":"Bob"} dead "mailbox does not exist"
}

// What a transaction enqueues does not exist before it commits.
func ExampleQueue_Begin() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	tx, err := q.Begin(ctx)
	if err != nil {
		fmt.Println(err)
	}
	if err := SignUp(ctx, tx, q, "Carol"); err != nil {
		fmt.Println(err)
	}
	if err := tx.Rollback(); err != nil {
		fmt.Println(err)
	}
	counts, err := q.Counts(ctx)
	fmt.Println(len(counts), err)
	// Output: 0 <nil>
}
