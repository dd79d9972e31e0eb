package queue_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

type Draft struct {
	Doc  int
	Text string
}

var SaveDraft = queue.NewKind[Draft]("draft.save")

// saveSoon saves a draft two seconds after its last change, and at least once a minute.
func saveSoon(ctx context.Context, q queue.Enqueuer, d Draft) (*queue.Job, error) {
	job := SaveDraft.New(d)
	job.Key, job.OnDuplicate = queue.KeyOf(SaveDraft.Name, d.Doc), queue.Replace
	job.Delay, job.MaxDelay = 2*time.Second, time.Minute
	return job, q.Enqueue(ctx, nil, job)
}

// Debounce: of many changes one job is left, with the last change.
func ExampleReplace_debounce() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	for _, text := range []string{"H", "He", "Hello"} {
		job, err := saveSoon(ctx, q, Draft{Doc: 7, Text: text})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("job %d, replaced: %v\n", job.ID, job.Replaced)
	}
	jobs, _, _ := q.Jobs(ctx, queue.Filter{})
	fmt.Printf("%d job: %s\n", len(jobs), jobs[0].Payload)
	// Output:
	// job 1, replaced: false
	// job 1, replaced: true
	// job 1, replaced: true
	// 1 job: {"Doc":7,"Text":"Hello"}
}

var UpdateTotal = queue.NewKind[int]("total.update")

// totalChanged says that the total of an account has to be computed again.
func totalChanged(ctx context.Context, q queue.Enqueuer, db queue.DB, account int) error {
	job := UpdateTotal.New(account)
	job.Key, job.OnDuplicate = queue.KeyOf(UpdateTotal.Name, account), queue.Replace
	return q.Enqueue(ctx, db, job)
}

// Recompute: what changes while the job runs is computed by the next one, however often it changes.
func ExampleReplace_recompute() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	runs := 0
	mux := queue.NewMux()
	UpdateTotal.Handle(mux, func(ctx context.Context, job *queue.Job, account int) error {
		if runs++; runs == 1 { // entries are written while the job runs
			for range 3 {
				if err := totalChanged(ctx, q, nil, account); err != nil {
					return err
				}
			}
		}
		fmt.Printf("job %d adds up account %d\n", job.ID, account)
		return nil
	})
	if err := totalChanged(ctx, q, nil, 42); err != nil { // in a program: in the *sql.Tx of the entry
		log.Fatal(err)
	}
	if _, err := q.Drain(ctx, mux); err != nil {
		log.Fatal(err)
	}
	// Output:
	// job 1 adds up account 42
	// job 2 adds up account 42
}

// Throttle: one job a minute for each device, with the last reading. Nothing is lost: a reading
// that comes while the job runs is the first of the next minute.
func ExampleReplace_throttle() {
	ctx := context.Background()
	q := queuetest.New(queuetest.Options{}) // in a program: postgres.New(db, postgres.Options{})
	report := queue.NewKind[float64]("reading.report")
	for _, celsius := range []float64{20.5, 21, 21.5} {
		job := report.New(celsius)
		job.Key, job.OnDuplicate = "device-3", queue.Replace
		job.Delay, job.MaxDelay = time.Minute, time.Minute
		if err := q.Enqueue(ctx, nil, job); err != nil {
			log.Fatal(err)
		}
	}
	jobs, _, _ := q.Jobs(ctx, queue.Filter{})
	fmt.Printf("%d job: %s, due %v after the first reading\n", len(jobs), jobs[0].Payload, jobs[0].ScheduledAt.Sub(jobs[0].CreatedAt))
	// Output: 1 job: 21.5, due 1m0s after the first reading
}
