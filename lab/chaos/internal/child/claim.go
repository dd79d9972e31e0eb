package child

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Claim is what a claimer does: it claims jobs and settles them, without a worker. It begins when
// the parent gives the go-ahead.
type Claim struct {
	Limits []int `json:"limits"` // of the claims, shuffled
	Rest   bool  `json:"rest"`   // go on with the last limit until no job is left
}

// claimLease is longer than any run.
const claimLease = time.Hour

// claim makes each call with its own worker name, which the claimed jobs keep. It notes the limit,
// how many jobs the call returned, and the name.
func claim(ctx context.Context, s *self) error {
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return err
	}
	limits := s.Claim.Limits
	last := limits[len(limits)-1]
	seed.Source(s.Seed, "claim", s.Name).Shuffle(len(limits), func(i, k int) { limits[i], limits[k] = limits[k], limits[i] })
	<-s.goAhead
	for call := 0; call < len(limits) || s.Claim.Rest; call++ {
		limit := last
		if call < len(limits) {
			limit = limits[call]
		}
		n, err := s.claimOnce(ctx, q, limit, fmt.Sprintf("%s/%d/%d", s.Name, limit, call))
		if err != nil {
			return err
		}
		if n == 0 && call >= len(limits) {
			return nil
		}
	}
	return nil
}

func (s *self) claimOnce(ctx context.Context, q queue.Queue, limit int, name string) (n int, err error) {
	jobs, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: limit, Lease: claimLease, Worker: name})
	if err != nil {
		return 0, err
	}
	exitOnError(s.ledger.Note(limit, len(jobs), name))
	if err := s.runAll(jobs); err != nil {
		return len(jobs), err
	}
	return len(jobs), s.settleDone(ctx, q, jobs)
}

// settleDone records that the jobs are done. Like a worker, it tries again for those that a
// transaction has locked: a claim with an older snapshot, and a plan that takes its time, locks
// jobs that others have claimed meanwhile.
func (s *self) settleDone(ctx context.Context, q queue.Queue, jobs []*queue.Job) error {
	for len(jobs) > 0 {
		outcomes := make([]queue.Outcome, len(jobs))
		for i, job := range jobs {
			outcomes[i] = queue.Outcome{Job: job, Action: queue.Done}
		}
		lost, err := q.Settle(ctx, nil, outcomes...)
		for _, job := range lost {
			exitOnError(s.ledger.Note(int(job.ID), job.Attempt, Lost))
		}
		locked, ok := errors.AsType[*driver.LockedError](err)
		if !ok {
			return err
		}
		jobs = locked.Jobs
	}
	return nil
}

// runAll records the start and the effect of each job.
func (s *self) runAll(jobs []*queue.Job) error {
	return recordAll(jobs, func(number, attempt int) error {
		return errors.Join(s.ledger.Started(number, attempt), s.ledger.Effect(number, attempt))
	})
}

// recordAll calls record for all jobs at once, so that the ledger writes their rows together.
func recordAll(jobs []*queue.Job, record func(number, attempt int) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(jobs))
	for i, job := range jobs {
		all.Go(func() {
			number, err := peer.NumberOf(job)
			if err == nil {
				err = record(number, job.Attempt)
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
