package postgres_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// BenchmarkCancelRunning cancels jobs that run, one after the other, and reports how long it takes
// from the call of Cancel until the handler's context ends, in milliseconds. An operation is one
// job.
func BenchmarkCancelRunning(b *testing.B) {
	w := ways[0]
	db, listen := w.open(b, postgrestest.DSN(b))
	q := backend(b, db, postgres.Options{Listen: listen})
	began, ended := make(chan int64), make(chan time.Time)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() {
		done <- engine.Worker{Backend: q, Logger: slog.New(slog.DiscardHandler), Handler: queue.HandlerFunc(
			func(ctx context.Context, job *queue.Job) error {
				began <- job.ID
				<-ctx.Done()
				ended <- time.Now()
				return context.Cause(ctx)
			})}.Run(ctx)
	}()
	var took []time.Duration
	for b.Loop() {
		enqueue(b, q, &queue.Job{Kind: "test"})
		id := <-began
		start := time.Now()
		if n, err := q.Cancel(b.Context(), nil, queue.Selection{IDs: []int64{id}}); n != 1 || err != nil {
			b.Fatalf("Cancel: %d, %v", n, err)
		}
		took = append(took, (<-ended).Sub(start))
	}
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
}

// BenchmarkCancelBesideClaims cancels 50,000 jobs of a group, while a claimer of the same queue
// goes on. It reports how long Cancel takes, and how long claims take meanwhile. The queue has no
// rules, or a limit for each group.
func BenchmarkCancelBesideClaims(b *testing.B) {
	for name, rule := range map[string]queue.Rule{"plain": {}, "limited": {PerGroup: 2}} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				cancelBesideClaims(b, rule)
			}
		})
	}
}

func cancelBesideClaims(b *testing.B, rule queue.Rule) {
	const flood = 50_000
	_, q := fresh(b, postgres.Options{})
	if err := q.SetRules(b.Context(), nil, rule); err != nil {
		b.Fatal(err)
	}
	for range flood / 5000 {
		list := payloads(5000)
		for _, j := range list {
			j.Group, j.Kind = "flood", "flood"
		}
		enqueue(b, q, list...)
	}
	kinds := []string{"other"}
	if rule.PerGroup > 0 {
		kinds = nil
	}
	ctx, stop := context.WithCancel(b.Context())
	claimed := make(chan []time.Duration, 1)
	go func() {
		var took []time.Duration
		for ctx.Err() == nil {
			job := &queue.Job{Kind: "other", Group: "other"}
			if err := q.Enqueue(context.WithoutCancel(ctx), nil, job); err != nil {
				b.Error(err)
			}
			begun := time.Now()
			jobs, err := q.Claim(context.WithoutCancel(ctx), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Kinds: kinds, Limit: 10, Lease: time.Minute, Worker: "w"})
			if err != nil {
				b.Errorf("Claim: %d jobs, %v", len(jobs), err)
			}
			took = append(took, time.Since(begun))
			var outcomes []queue.Outcome
			for _, j := range jobs {
				if j.Kind == "other" { // the group of the others stays full
					outcomes = append(outcomes, queue.Outcome{Job: j})
				}
			}
			if _, err := q.Settle(context.WithoutCancel(ctx), nil, outcomes...); err != nil {
				b.Error(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		claimed <- took
	}()
	time.Sleep(time.Second)
	begun := time.Now()
	if n, err := q.Cancel(b.Context(), nil, queue.Selection{Kind: "flood"}); n != flood || err != nil {
		b.Fatalf("Cancel: %d, %v", n, err)
	}
	b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms/cancel")
	stop()
	took := <-claimed
	slices.Sort(took)
	b.ReportMetric(float64(len(took)), "claims")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50/claim")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99/claim")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max/claim")
}
