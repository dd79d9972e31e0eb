package memory

import (
	"cmp"
	"context"
	"time"

	"github.com/errandhq/errand/backend/internal/fleet"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// statsKey is what statistics are kept by.
type statsKey struct {
	minute      time.Time
	queue, kind string
}

// addStats adds the statistics of a report. The caller holds q.mu.
func (q *Queue) addStats(at time.Time, all []driver.MinuteStats) {
	for _, s := range all {
		key := statsKey{s.Minute(at), s.Queue, s.Kind}
		sum := q.stats[key]
		if sum == nil {
			sum = &queue.StatsRecord{At: key.minute, Queue: s.Queue, Kind: s.Kind}
			q.stats[key] = sum
		}
		sum.Add(s.Stats)
	}
}

// Stats implements [driver.Statistician].
func (q *Queue) Stats(ctx context.Context, f queue.StatsFilter) ([]queue.StatsRecord, error) {
	const operation = "statistics"
	if err := cmp.Or(f.Check(), ctx.Err()); err != nil {
		return nil, failed(operation, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	sum := fleet.NewSum(f)
	for _, r := range q.stats {
		sum.Add(*r)
	}
	return sum.Records(), nil
}

// pruneStats removes old statistics. The caller holds q.mu.
func (q *Queue) pruneStats(at time.Time) {
	for key := range q.stats {
		if at.Sub(key.minute) > driver.StatsKept {
			delete(q.stats, key)
		}
	}
}
