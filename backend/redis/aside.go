package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// SetAside gives the pending jobs of which.IDs and which.Queue to the queue to, in which nobody may
// work, and leaves them in their partitions. So Jobs, Job, Cancel and Delete know them by the new
// queue, and Claim does not find them, except with a Spread of all partitions. A job stays where it
// is if a job that is set aside has its Key. It returns how many jobs it has changed. With
// [Options].Durable it waits for replicas.
//
// It serves errand queues move, whose jobs must not run while they are copied.
func (b *Backend) SetAside(ctx context.Context, which queue.Selection, to string) (n int, err error) {
	if err := cmp.Or(checkAside(which, to), ctx.Err()); err != nil {
		return 0, failed("set aside", err)
	}
	ids := slices.Compact(slices.Sorted(slices.Values(which.IDs)))
	for some := range slices.Chunk(ids, step) {
		c := b.group(len(some), []string{which.Queue, to}, func(i int) int64 { return some[i] }, func(int) []string { return nil })
		answers, err := messages(b.callAll(ctx, "aside", c.partitions, c.args))
		if err != nil {
			return n, failed("set aside", err)
		}
		for i := range answers {
			changed, err := answers[i].AsInt64()
			if err != nil {
				return n, failed("set aside", err)
			}
			n += int(changed)
		}
	}
	return n, nil
}

// checkAside returns an error unless which names jobs of one queue.
func checkAside(which queue.Selection, to string) error {
	if err := which.Check(queue.StatusPending); err != nil {
		return err
	}
	if which.Queue == "" || which.IDs == nil || which.Kind+which.Group+which.Key != "" {
		return &queue.InvalidError{Field: "Selection", Problem: fmt.Sprintf("Queue %s and %d IDs: both are needed, and nothing else", strconv.Quote(which.Queue), len(which.IDs))}
	}
	return driver.CheckQueue(to)
}
