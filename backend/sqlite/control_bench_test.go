package sqlite_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// BenchmarkCancelBesideClaims cancels 50,000 jobs that wait, while a claimer of the same queue goes
// on. It reports how long Cancel takes, and how long claims take meanwhile.
func BenchmarkCancelBesideClaims(b *testing.B) {
	for _, driver := range drivers {
		b.Run(driver, func(b *testing.B) {
			for range b.N {
				cancelBesideClaims(b, driver)
			}
		})
	}
}

func cancelBesideClaims(b *testing.B, driver string) {
	const flood = 50_000
	db := open(b, driver, dsn(b))
	migrate(b, db, sqlite.Options{})
	q := backend(b, db, sqlite.Options{})
	for range flood / 5000 {
		jobs := make([]*queue.Job, 5000)
		for i := range jobs {
			jobs[i] = &queue.Job{Kind: "flood", Group: "flood", Payload: []byte(`{"a": 1}`)}
		}
		if err := q.Enqueue(b.Context(), nil, jobs...); err != nil {
			b.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(b.Context())
	claimed := make(chan []time.Duration, 1)
	go func() {
		var took []time.Duration
		for ctx.Err() == nil {
			job := &queue.Job{Kind: "other", Priority: -1}
			begun := time.Now()
			if err := q.Enqueue(context.WithoutCancel(ctx), nil, job); err != nil {
				b.Error(err)
			}
			jobs, err := q.Claim(context.WithoutCancel(ctx), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Kinds: []string{"other"}, Limit: 10, Lease: time.Minute, Worker: "w"})
			if err != nil || len(jobs) != 1 {
				b.Errorf("Claim: %d jobs, %v", len(jobs), err)
			}
			took = append(took, time.Since(begun))
			time.Sleep(5 * time.Millisecond)
		}
		claimed <- took
	}()
	begun := time.Now()
	if n, err := q.Cancel(b.Context(), nil, queue.Selection{Kind: "flood"}); n != flood || err != nil {
		b.Fatalf("Cancel: %d, %v", n, err)
	}
	b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms/cancel")
	stop()
	took := <-claimed
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "ms-p99/claim")
	b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "ms-max/claim")
}
