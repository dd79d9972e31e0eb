package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// RateWaits implements [driver.Ruler] with sql/rules.sql and sql/tokens.sql.
func (b *Backend) RateWaits(ctx context.Context, name string, groups ...string) ([]driver.RateWait, error) {
	rules, err := b.Rules(ctx)
	if err != nil {
		return nil, err
	}
	var at time.Time
	var buckets map[string]limits.Bucket
	err = b.run(ctx, "tell of rates", nil, func(db queue.DB) error {
		buckets = make(map[string]limits.Bucket)
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var group sql.NullString
			var k limits.Bucket
			err := rows.Scan(&at, &group, &k.At, &k.FullAt, &k.Each, &k.Until)
			if group.Valid {
				buckets[group.String] = k
			}
			return err
		}, b.sql["tokens"], name, textArray(groups))
	})
	if err != nil {
		return nil, err
	}
	return limits.ByQueue(rules)[name].Waits(at, groups, func(bucket string) (limits.Bucket, error) { return buckets[bucket], nil })
}
