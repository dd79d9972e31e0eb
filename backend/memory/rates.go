package memory

import (
	"context"
	"maps"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// meter returns the meter of a claim of that queue. The caller holds q.mu.
func (q *Queue) meter(name string, rules *limits.Queue, at time.Time) *limits.Meter {
	return rules.Meter(at, func(bucket string) (limits.Bucket, error) { return q.buckets[ruleKey{name, bucket}], nil })
}

// RateWaits implements [driver.Ruler].
func (q *Queue) RateWaits(ctx context.Context, name string, groups ...string) ([]driver.RateWait, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("tell of rates", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.limits[name].Waits(time.Now(), groups, func(bucket string) (limits.Bucket, error) { return q.buckets[ruleKey{name, bucket}], nil })
}

// spend stores what a claim has spent, and when there are more tokens. The caller holds q.mu.
func (q *Queue) spend(name string, m *limits.Meter, at time.Time) {
	for bucket, b := range m.Spent() {
		q.buckets[ruleKey{name, bucket}] = b
	}
	if wait := m.Wait(); wait >= 0 {
		if next := at.Add(wait); !q.tokens[name].After(at) || next.Before(q.tokens[name]) {
			q.tokens[name] = next
		}
	}
}

// throttle makes a rate stand still after the outcome of a job, if it says so. The caller holds
// q.mu.
func (q *Queue) throttle(rec *queue.Record, o queue.Outcome, at time.Time) {
	if !o.Throttle {
		return
	}
	if bucket, ok := q.limits[rec.Queue].Throttles(rec.Group); ok {
		k := ruleKey{rec.Queue, bucket}
		q.buckets[k] = q.buckets[k].Throttled(at.Add(max(o.Delay, 0)))
	}
}

// pruneBuckets forgets the buckets that are full. The caller holds q.mu.
func (q *Queue) pruneBuckets(at time.Time) {
	maps.DeleteFunc(q.buckets, func(k ruleKey, b limits.Bucket) bool {
		return q.limits[k.queue].IsFull(k.group, b, at)
	})
}
