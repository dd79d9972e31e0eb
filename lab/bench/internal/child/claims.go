package child

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/bench/internal/stats"
	"github.com/errandhq/errand/queue"
)

const (
	claimRounds = 10  // of either table, in turns
	claimJobs   = 200 // pending at the beginning of a round
	claimLimit  = 10
	emptyClaims = 10 // in a round, after all jobs have been claimed, if asked for
)

// claims times claims on two tables in turns: the table in the usual schema, and the table in
// Schema. It reports how long a claim of 10 of 200 jobs takes and, if asked for, an empty claim.
func claims(ctx context.Context, s *self) (f Figures, err error) {
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		return nil, err
	}
	defer closing(db, &err)
	tables := []*claimTable{{name: "here"}, {name: "there", schema: s.Schema}}
	empty := 0
	if s.Empty {
		empty = emptyClaims
	}
	for _, t := range tables {
		if t.queue, err = postgres.New(db, postgres.Options{Schema: t.schema}); err != nil {
			return nil, err
		}
		if err := t.round(ctx, empty); err != nil { // the warm-up
			return nil, err
		}
		t.took, t.empty = nil, nil
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	for range claimRounds {
		for _, t := range tables {
			if err := t.round(ctx, empty); err != nil {
				return nil, err
			}
		}
	}
	f = Figures{}
	for _, t := range tables {
		f[t.name+"_p50"] = milliseconds(stats.Quantile(t.took, 0.5))
		f[t.name+"_p99"] = milliseconds(stats.Quantile(t.took, 0.99))
		if s.Empty {
			f[t.name+"_empty"] = milliseconds(stats.Quantile(t.empty, 0.5))
		}
	}
	return f, nil
}

type claimTable struct {
	name, schema string
	queue        *postgres.Backend
	took, empty  []time.Duration
}

// round enqueues jobs, claims them, makes the empty claims, and settles the jobs.
func (t *claimTable) round(ctx context.Context, empty int) error {
	jobs := make([]*queue.Job, claimJobs)
	for i := range jobs {
		jobs[i] = &queue.Job{Kind: "bench.claim"}
	}
	if err := t.queue.Enqueue(ctx, nil, jobs...); err != nil {
		return err
	}
	var outcomes []queue.Outcome
	for range claimJobs / claimLimit {
		got, took, err := t.claim(ctx, claimLimit)
		if err != nil {
			return err
		}
		t.took = append(t.took, took)
		for _, job := range got {
			outcomes = append(outcomes, queue.Outcome{Job: job})
		}
	}
	for range empty {
		_, took, err := t.claim(ctx, 0)
		if err != nil {
			return err
		}
		t.empty = append(t.empty, took)
	}
	lost, err := t.queue.Settle(ctx, nil, outcomes...)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%d jobs lost", len(lost))
	}
	return err
}

// claim times one claim. It fails unless the claim returns want jobs.
func (t *claimTable) claim(ctx context.Context, want int) (got []*queue.Job, took time.Duration, err error) {
	from := time.Now()
	got, err = t.queue.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: claimLimit, Lease: time.Minute, Worker: "bench"})
	took = time.Since(from)
	if err == nil && len(got) != want {
		err = fmt.Errorf("a claim took %d jobs, want %d", len(got), want)
	}
	return got, took, err
}
