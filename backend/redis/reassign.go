package redis

import (
	"context"
	"strconv"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Reassign implements [driver.Reassigner]. It changes the jobs of all partitions at once. If one of
// them fails, jobs of the others may have new holders.
func (b *Backend) Reassign(ctx context.Context, workers []string, jobs ...*queue.Job) (left []*queue.Job, err error) {
	if err := driver.CheckReassign(workers, jobs); err != nil {
		return nil, failed("reassign", err)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("reassign", err)
	}
	c := b.group(len(jobs), nil, func(i int) int64 { return jobs[i].ID }, func(i int) []string {
		return []string{strconv.FormatInt(jobs[i].Fence, 10), jobs[i].Worker, workers[i]}
	})
	_, err = c.answers(b.callAll(ctx, "reassign", c.partitions, c.args), func(i int, answer int64) {
		if answer == 1 {
			left = append(left, jobs[i])
		}
	})
	if err != nil {
		return nil, failed("reassign", err)
	}
	sqlkit.Apply(sqlkit.ReassignedOf(workers, jobs), left)
	return left, nil
}
