package queue_test

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

type reportArgs struct{ Region string }

var report = queue.NewKind[reportArgs]("report")

// A program declares its schedules at each start. What a person edits meanwhile stays, until the
// text in the code changes.
func ExampleSchedule() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := queuetest.New(queuetest.Options{})
	mux := queue.NewMux()
	report.Handle(mux, func(_ context.Context, job *queue.Job, v reportArgs) error {
		name, _, _ := queue.TickOf(job)
		fmt.Println(name, v.Region)
		stop()
		return nil
	})

	nightly := report.Schedule("nightly-report", "0 3 * * *", reportArgs{Region: "eu"})
	nightly.Zone = "Europe/Berlin"
	often := report.Schedule("report-each-second", "@every 1s", reportArgs{Region: "us"})
	declared := queue.Declaration{Schedules: []queue.Schedule{nightly, often}}
	if _, err := q.DeclareSchedules(ctx, nil, declared); err != nil {
		fmt.Println(err)
	}
	if err := (engine.Worker{Backend: q, Handler: mux}).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: report-each-second us
}

// A person edits, pauses and deletes schedules while the program runs, each in a transaction with
// an audit row, or with nil as here.
func ExampleDeclaration() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	if err := q.SetSchedules(ctx, nil, report.Schedule("weekly", "30 9 * * mon", reportArgs{})); err != nil {
		fmt.Println(err)
	}
	if _, err := q.Pause(ctx, nil, queue.Target{Schedule: "weekly"}, true); err != nil {
		fmt.Println(err)
	}
	all, err := q.Schedules(ctx)
	for _, s := range all {
		fmt.Println(s.Name, s.Spec, s.Paused, err)
	}
	// Output: weekly 30 9 * * mon true <nil>
}
