package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Backlogs implements [driver.Inspector]. A job that an open transaction has claimed or is about
// to change counts as waiting until that transaction commits.
func (q *Queue) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("backlog", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	oldest := make(map[string]time.Duration)
	for _, r := range q.rows {
		rec := &r.committed
		if age := at.Sub(rec.ScheduledAt); rec.Status == queue.StatusPending && age >= 0 {
			oldest[rec.Queue] = max(oldest[rec.Queue], age)
		}
	}
	backlogs := make([]driver.Backlog, 0, len(oldest))
	for name, age := range oldest {
		backlogs = append(backlogs, driver.Backlog{Queue: name, Age: age})
	}
	slices.SortFunc(backlogs, func(a, b driver.Backlog) int { return cmp.Compare(a.Queue, b.Queue) })
	return backlogs, nil
}
