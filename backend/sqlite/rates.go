package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// RateWaits implements [driver.Ruler] with sql/rules.sql and sql/bucket.sql.
func (b *Backend) RateWaits(ctx context.Context, name string, groups ...string) (waits []driver.RateWait, err error) {
	err = b.read(ctx, "tell of rates", func(db queue.DB) error {
		rules, err := b.readRules(ctx, db)
		if err != nil {
			return err
		}
		waits, err = limits.ByQueue(rules)[name].Waits(time.Now(), groups, func(bucket string) (limits.Bucket, error) {
			return b.readBucket(ctx, db, name, bucket)
		})
		return err
	})
	return waits, err
}

// readBucket reads a bucket of a queue, with sql/bucket.sql.
func (b *Backend) readBucket(ctx context.Context, db queue.DB, name, bucket string) (found limits.Bucket, err error) {
	err = queryRows(ctx, db, func(rows *sql.Rows) error {
		return rows.Scan(&found.At, &found.FullAt, &found.Each, &found.Until)
	}, b.sql["bucket"], name, bucket)
	return found, err
}

// loadBucket reads a bucket of the claim's queue.
func (s *groups) loadBucket(bucket string) (limits.Bucket, error) {
	return s.b.readBucket(s.ctx, s.db, s.queue, bucket)
}

// pay spends tokens for the jobs of the result from the first-th on, and drops those for which
// there are none. No job of a group passes one that was dropped.
func (s *groups) pay(first int) error {
	found := s.result.jobs[first:]
	if s.meter == nil || len(found) == 0 {
		return nil
	}
	costs, err := s.costs(found)
	if err != nil {
		return err
	}
	refused := make(map[string]bool)
	isOver := false
	kept := s.result.jobs[:first]
	for _, job := range found {
		ok := !isOver && !refused[job.Group]
		if ok {
			if ok, err = s.meter.Spend(job.Group, costs[job.ID]); err != nil {
				return err
			}
			isOver = !ok && s.meter.IsEmpty()
			refused[job.Group] = !ok
		}
		if ok {
			kept = append(kept, job)
		} else {
			s.result.bytes -= sizeOf(job)
			s.hasRefused = true
		}
	}
	clear(s.result.jobs[len(kept):])
	s.result.jobs = kept
	return nil
}

// sizeOf returns about how many bytes of the result the job takes.
func sizeOf(job *queue.Job) int {
	size := len(job.Payload)
	for k, v := range job.Headers {
		size += len(k) + len(v)
	}
	return size
}

// costs returns the costs of the jobs that cost more than 1, with sql/costs.sql.
func (s *groups) costs(jobs []*queue.Job) (costs map[int64]int, err error) {
	var ids list
	for _, job := range jobs {
		ids.int(job.ID)
	}
	costs = make(map[int64]int)
	err = queryRows(s.ctx, s.db, func(rows *sql.Rows) error {
		var id int64
		var cost int
		err := rows.Scan(&id, &cost)
		costs[id] = cost
		return err
	}, s.b.sql["costs"], ids.String())
	return costs, err
}

// wait returns how long until there are tokens for another job, or less than 0. If ordered jobs
// were refused, there may be other groups of them, with tokens.
func (s *groups) wait() time.Duration {
	wait := s.meter.Wait()
	if s.hasRefused && !s.meter.IsEmpty() && s.result.turns[s.queue].hasMore {
		wait = min(wait, time.Millisecond)
	}
	return wait
}

// spend writes what a claim has spent, with sql/spend.sql.
func (b *Backend) spend(ctx context.Context, db queue.DB, found claimResult) error {
	for name, m := range found.meters {
		for group, bucket := range m.Spent() {
			if _, err := exec(ctx, db, b.sql["spend"], name, group, bucket.At, bucket.FullAt, bucket.Each); err != nil {
				return err
			}
		}
	}
	return nil
}

// throttle empties the buckets of the outcomes that throttle, with sql/throttle.sql. It reads the
// queue and the group of each job, with sql/throttled.sql, because a gateway knows only the id,
// fence and worker of a job. So it comes before the statement that settles the job. A job that the
// caller does not hold throttles nothing.
func (b *Backend) throttle(ctx context.Context, db queue.DB, outcomes []queue.Outcome) error {
	if !slices.ContainsFunc(outcomes, func(o queue.Outcome) bool { return o.Throttle }) {
		return nil
	}
	rules, err := b.readRules(ctx, db)
	if err != nil {
		return err
	}
	queues := limits.ByQueue(rules)
	at := time.Now()
	for _, o := range outcomes {
		if !o.Throttle {
			continue
		}
		var name, group string
		err := queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&name, &group) },
			b.sql["throttled"], o.Job.ID, o.Job.Fence, o.Job.Worker)
		if err != nil {
			return err
		}
		if bucket, ok := queues[name].Throttles(group); ok {
			until := at.Add(max(o.Delay, 0)).UnixNano()
			if _, err := exec(ctx, db, b.sql["throttle"], name, bucket, until); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweptAtOnce is how many buckets one pass removes at most: meanwhile nobody else writes.
const sweptAtOnce = 1000

// sweepTokens removes the buckets that are full. If there are none, it only reads.
func (b *Backend) sweepTokens(ctx context.Context) error {
	at := time.Now()
	var full list
	err := b.read(ctx, "prune", func(db queue.DB) (err error) {
		full, err = b.fullBuckets(ctx, db, at)
		return err
	})
	if err != nil || len(full.text) == 0 {
		return err
	}
	return b.write(ctx, "prune", func(ctx context.Context, db queue.DB) error {
		_, err := exec(ctx, db, b.sql["sweep_tokens"], full.String())
		return err
	})
}

// fullBuckets returns buckets that are full at that time, sweptAtOnce at most, as
// sql/sweep_tokens.sql reads them. Which of them are depends on the present rules.
func (b *Backend) fullBuckets(ctx context.Context, db queue.DB, at time.Time) (full list, err error) {
	rules, err := b.readRules(ctx, db)
	if err != nil {
		return full, err
	}
	queues, n := limits.ByQueue(rules), 0
	err = queryRows(ctx, db, func(rows *sql.Rows) error {
		var name, group string
		var bucket limits.Bucket
		err := rows.Scan(&name, &group, &bucket.At, &bucket.FullAt, &bucket.Each, &bucket.Until)
		if err == nil && n < sweptAtOnce && queues[name].IsFull(group, bucket, at) {
			n++
			full.begin()
			full.string(name)
			full.string(group)
			full.int(bucket.FullAt)
			full.int(bucket.Until)
			full.end()
		}
		return err
	}, b.sql["buckets"])
	return full, err
}
