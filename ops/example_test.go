package ops_test

import (
	"context"
	"fmt"
	"log"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/queue"
)

// A person asks what is wrong with a queue, and why a job does not run.
func Example() {
	ctx := context.Background()
	q := memory.New(memory.Options{})
	if _, err := q.Pause(ctx, nil, queue.Target{Queue: "emails"}, true); err != nil {
		log.Fatal(err)
	}
	job := &queue.Job{Queue: "emails", Kind: "email.welcome"}
	if err := q.Enqueue(ctx, nil, job); err != nil {
		log.Fatal(err)
	}

	report, err := doctor.Examine(ctx, q, doctor.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("doctor:", report.Level())
	answer, err := explain.Job(ctx, q, explain.Question{ID: job.ID})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range answer.Reasons {
		fmt.Println(r.ID+":", r.Verdict)
	}
	// Output:
	// doctor: ok
	// queue-paused: The queue emails is paused.
	// no-worker: No worker is alive.
}
