package queue_test

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// stopWelcoming cancels all welcome emails and notes who did it: both, or neither.
func stopWelcoming(ctx context.Context, q *queuetest.Queue, begin func(context.Context) (queuetest.Tx, error)) error {
	tx, err := begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	n, err := q.Cancel(ctx, tx, queue.Selection{Kind: "email.welcome"})
	if err != nil {
		return err
	}
	err = q.Audit(ctx, tx, queue.AuditEntry{
		Actor: "ada", Action: "jobs.cancel", Selection: "kind=email.welcome", Count: int64(n), Reason: "wrong template",
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

func ExampleAuditEntry() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	for range 3 {
		if err := q.Enqueue(ctx, nil, &queue.Job{Kind: "email.welcome"}); err != nil {
			panic(err)
		}
	}
	if err := stopWelcoming(ctx, q, q.Begin); err != nil { // or db.BeginTx
		panic(err)
	}
	page, _, err := q.AuditLog(ctx, queue.AuditFilter{Action: "jobs.cancel"})
	if err != nil {
		panic(err)
	}
	for _, e := range page {
		fmt.Printf("%s: %s %s, %d jobs: %s\n", e.Actor, e.Action, e.Selection, e.Count, e.Reason)
	}
	// Output:
	// ada: jobs.cancel kind=email.welcome, 3 jobs: wrong template
}
