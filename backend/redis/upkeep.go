package redis

import (
	"context"

	"github.com/errandhq/errand/queue/driver"
)

// Prune implements [driver.Reclaimer]. A call removes at most 500 jobs of each status from each
// partition, and at most 500 workers and the statistics of 500 minutes. It returns the errors of
// partitions that fail beside what it has removed from the others.
func (b *Backend) Prune(ctx context.Context) (removed int, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, failed("prune", err)
	}
	keep := b.opts.Retention
	var errs failures
	for _, r := range b.onEach(ctx, "prune", micros(max(keep.Completed, 0)), micros(max(keep.Dead, 0)), micros(driver.ForgottenAfter), micros(driver.StatsKept)) {
		pair, err := r.AsIntSlice()
		if err != nil {
			errs.add(err)
			continue
		}
		removed, more = removed+int(pair[0]), more || pair[1] == 1
	}
	if err := errs.err(); err != nil {
		return removed, more, failed("prune", err)
	}
	return removed, more, nil
}
