package child

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/bench/internal/stats"
	"github.com/errandhq/errand/queue"
)

const (
	claimRounds = 10  // in turn on either table
	claimJobs   = 200 // pending at the beginning of each
	claimLimit  = 10
)

// claims claims from two tables in turn: the one in the usual schema, and
// the one in Schema. It tells how long a claim of ten of 200 jobs takes.
func claims(ctx context.Context, s *self) (f Figures, err error) {
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		return nil, err
	}
	defer closing(db, &err)
	tables := []*claimTable{{name: "here"}, {name: "there", schema: s.Schema}}
	for _, t := range tables {
		if t.queue, err = postgres.New(db, postgres.Options{Schema: t.schema}); err != nil {
			return nil, err
		}
		if err := t.round(ctx); err != nil { // warms up
			return nil, err
		}
		t.took = nil
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	for range claimRounds {
		for _, t := range tables {
			if err := t.round(ctx); err != nil {
				return nil, err
			}
		}
	}
	f = Figures{}
	for _, t := range tables {
		f[t.name+"_p50"] = milliseconds(stats.Quantile(t.took, 0.5))
		f[t.name+"_p99"] = milliseconds(stats.Quantile(t.took, 0.99))
	}
	return f, nil
}

type claimTable struct {
	name, schema string
	queue        *postgres.Backend
	took         []time.Duration
}

// round enqueues jobs, claims them, and settles them.
func (t *claimTable) round(ctx context.Context) error {
	jobs := make([]*queue.Job, claimJobs)
	for i := range jobs {
		jobs[i] = &queue.Job{Kind: "bench.claim"}
	}
	if err := t.queue.Enqueue(ctx, nil, jobs...); err != nil {
		return err
	}
	var outcomes []queue.Outcome
	for range claimJobs / claimLimit {
		from := time.Now()
		got, err := t.queue.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: claimLimit, Lease: time.Minute, Worker: "bench"})
		t.took = append(t.took, time.Since(from))
		if err != nil {
			return err
		}
		if len(got) != claimLimit {
			return fmt.Errorf("a claim of %d took %d jobs", claimLimit, len(got))
		}
		for _, job := range got {
			outcomes = append(outcomes, queue.Outcome{Job: job})
		}
	}
	lost, err := t.queue.Settle(ctx, nil, outcomes...)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%d jobs lost", len(lost))
	}
	return err
}
