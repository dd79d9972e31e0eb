package redis

import "context"

// Prune implements [queue.Pruner]. A call removes at most 500 jobs of each status from each
// partition.
func (b *Backend) Prune(ctx context.Context) (removed int, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, failed("prune", err)
	}
	keep := b.opts.Retention
	answers, err := b.onEach(ctx, "prune", micros(max(keep.Completed, 0)), micros(max(keep.Dead, 0)))
	if err != nil {
		return 0, false, failed("prune", err)
	}
	for p := range answers {
		pair, err := answers[p].AsIntSlice()
		if err != nil {
			return removed, more, failed("prune", err)
		}
		removed, more = removed+int(pair[0]), more || pair[1] == 1
	}
	return removed, more, nil
}
