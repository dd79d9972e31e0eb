package queue_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// LastHour writes what the runs of each kind came to in the last hour.
func LastHour(ctx context.Context, out io.Writer, s driver.Statistician) error {
	kinds, err := s.Stats(ctx, queue.StatsFilter{From: time.Now().Add(-time.Hour), ByKind: true, Times: true})
	if err != nil {
		return err
	}
	for _, k := range kinds {
		fmt.Fprintf(out, "%s: %d done, %d failed, %d dead, 95 %% within %v\n", k.Kind, k.Done, k.Failed, k.Dead, k.RunTimes.Quantile(0.95))
	}
	return nil
}

func ExampleStatsFilter() {
	ctx, stop := context.WithCancel(context.Background())
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	jobs := []*queue.Job{WelcomeEmail.New(Welcome{UserID: 1}), WelcomeEmail.New(Welcome{UserID: 2}), WelcomeEmail.New(Welcome{UserID: 3})}
	_ = q.Enqueue(ctx, nil, jobs...)
	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(_ context.Context, job *queue.Job, w Welcome) error {
		if w.UserID == 3 {
			stop()
		}
		time.Sleep(10 * time.Millisecond)
		return nil
	})
	_ = engine.Worker{Backend: q, Handler: mux, Concurrency: 1}.Run(ctx)
	all, _ := q.Stats(context.Background(), queue.StatsFilter{})
	fmt.Println(all[0].Done, "done, each of which took 10 ms or more:", all[0].Ran >= 30*time.Millisecond)
	// Output: 3 done, each of which took 10 ms or more: true
}

func ExampleHistogram() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	report := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "w"}, Stats: []driver.MinuteStats{{
		Queue: "default", Kind: "email.welcome", Stats: queue.Stats{Done: 100, RunTimes: queue.Histogram{0, 0, 0, 90, 0, 0, 0, 10}},
	}}}
	_ = q.ReportWorkers(ctx, report) // as a worker does
	_ = LastHour(ctx, os.Stdout, q)
	// Output: email.welcome: 100 done, 0 failed, 0 dead, 95 % within 96ms
}
