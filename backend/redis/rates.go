package redis

import (
	"context"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue/driver"
)

// RateWaits implements [driver.Ruler].
func (b *Backend) RateWaits(ctx context.Context, name string, groups ...string) ([]driver.RateWait, error) {
	const operation = "tell of rates"
	rules, err := b.Rules(ctx)
	if err != nil {
		return nil, err
	}
	m, err := b.call(ctx, "tokens", b.firstOf(name), append([]string{name}, groups...)...)
	if err != nil {
		return nil, failed(operation, err)
	}
	now, buckets := time.Now(), make(map[string]limits.Bucket)
	err = readEach(&m, func(in *reader) {
		group, at := in.text(), in.time()
		k := limits.Bucket{At: at.UnixNano(), FullAt: at.UnixNano() + in.int(), Each: in.int()}
		if until := in.time(); !until.IsZero() {
			k.Until = until.UnixNano()
		}
		now, buckets[group] = in.time(), k
	})
	if err != nil {
		return nil, failed(operation, err)
	}
	return limits.ByQueue(rules)[name].Waits(now, groups, func(bucket string) (limits.Bucket, error) { return buckets[bucket], nil })
}
