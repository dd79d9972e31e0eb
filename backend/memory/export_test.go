package memory

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// Rewind makes the next tick of each schedule due by that much sooner, and workers silent for that
// much longer, and statistics older.
func (q *Queue) Rewind(by time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, w := range q.workers {
		w.SeenAt = w.SeenAt.Add(-by)
		q.workers[name] = w
	}
	old := q.stats
	q.stats = make(map[statsKey]*queue.StatsRecord)
	for key, r := range old {
		r.At = r.At.Add(-by).Truncate(time.Minute)
		key.minute = r.At
		q.stats[key] = r
	}
	for _, s := range q.schedules {
		if s.committed != nil && !s.committed.Next.IsZero() {
			next := *s.committed
			next.Next = next.Next.Add(-by)
			s.committed = &next
		}
	}
}

// Hold makes a pending job held.
func (q *Queue) Hold(_ context.Context, id int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := q.rows[id].committed
	next.Status = queue.StatusHeld
	q.write(nil, q.rows[id], next)
	return nil
}

// LeaseEnd returns what a running job's lease is compared by.
func (q *Queue) LeaseEnd(id int64) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rows[id].due
}
