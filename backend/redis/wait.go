package redis

import (
	"context"
	"time"
)

// Sleep implements [driver.Waiter].
func (b *Backend) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, failed("sleep", err)
	}
	var partitions []int
	var args [][]string
	for _, at := range b.placesOf(queues, 0) {
		partitions, args = append(partitions, at.partition), append(args, []string{at.queue})
	}
	answers, err := messages(b.callAll(ctx, "sleep", partitions, args))
	if err != nil {
		return 0, failed("sleep", err)
	}
	next = -1
	for i := range answers {
		us, err := answers[i].AsInt64()
		if err != nil {
			return 0, failed("sleep", err)
		}
		if d := time.Duration(us) * time.Microsecond; us >= 0 && (next < 0 || d < next) {
			next = d
		}
	}
	return b.turns.Bound(queues, next), nil
}
