package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/errandhq/errand/backend/internal/fleet"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// addStats adds the statistics of reports to those of their minutes, in the transaction db. It
// reads each minute once.
func (b *Backend) addStats(ctx context.Context, db queue.DB, at int64, all []driver.MinuteStats) error {
	type key struct {
		minute      int64
		queue, kind string
	}
	sums := make(map[key]queue.Stats)
	isRead := make(map[int64]bool)
	for _, s := range all {
		minute := s.Minute(time.UnixMicro(at)).UnixMicro()
		if !isRead[minute] {
			isRead[minute] = true
			err := b.queryStats(ctx, db, func(r queue.StatsRecord) {
				sums[key{minute, r.Queue, r.Kind}] = r.Stats
			}, "", "", minute, minute+1)
			if err != nil {
				return err
			}
		}
		k := key{minute, s.Queue, s.Kind}
		sum := sums[k]
		sum.Add(s.Stats)
		sums[k] = sum
		_, err := exec(ctx, db, b.sql["write_stats"], minute, s.Queue, s.Kind, sum.Done, sum.Failed, sum.Dead, sum.Lost,
			sqlkit.Microseconds(sum.Ran), sqlkit.Microseconds(sum.Waited), histogramText(sum.RunTimes), histogramText(sum.WaitTimes))
		if err != nil {
			return err
		}
	}
	return nil
}

// histogramText returns the stored form of a histogram.
func histogramText(h queue.Histogram) string {
	text, _ := json.Marshal(append(queue.Histogram{}, h...)) // numbers always marshal
	return string(text)
}

// queryStats calls add with the statistics of each minute, queue and kind. from and before are
// microseconds.
func (b *Backend) queryStats(ctx context.Context, db queue.DB, add func(queue.StatsRecord), name, kind string, from, before int64) error {
	return queryRows(ctx, db, func(rows *sql.Rows) error {
		var r queue.StatsRecord
		var minute, ran, waited int64
		var runTimes, waitTimes []byte
		err := rows.Scan(&minute, &r.Queue, &r.Kind, &r.Done, &r.Failed, &r.Dead, &r.Lost, &ran, &waited, &runTimes, &waitTimes)
		if err != nil {
			return err
		}
		r.At, r.Ran, r.Waited = timeAt(minute), sqlkit.Duration(ran), sqlkit.Duration(waited)
		r.RunTimes, r.WaitTimes = sqlkit.DecodeHistogram(runTimes), sqlkit.DecodeHistogram(waitTimes)
		add(r)
		return nil
	}, b.sql["stats"], sqlkit.OrNull(name), sqlkit.OrNull(kind), from, before)
}

// Stats implements [driver.Statistician] with sql/stats.sql.
func (b *Backend) Stats(ctx context.Context, f queue.StatsFilter) ([]queue.StatsRecord, error) {
	const operation = "statistics"
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", operation, err)
	}
	from, before := int64(0), int64(math.MaxInt64)
	if !f.From.IsZero() {
		from = f.From.UnixMicro()
	}
	if !f.To.IsZero() {
		before = f.To.UnixMicro()
	}
	var sum *fleet.Sum
	err := b.read(ctx, operation, func(db queue.DB) error {
		sum = fleet.NewSum(f)
		return b.queryStats(ctx, db, sum.Add, f.Queue, f.Kind, from, before)
	})
	if err != nil {
		return nil, err
	}
	return sum.Records(), nil
}

// sweepFleet removes the records of workers that have vanished long ago, and old statistics. It
// writes only if there are any.
func (b *Backend) sweepFleet(ctx context.Context) error {
	for _, s := range []struct {
		find, remove string
		after        time.Duration
	}{
		{b.sql["forgotten_workers"], b.sql["sweep_workers"], driver.ForgottenAfter},
		{b.sql["old_stats"], b.sql["sweep_stats"], driver.StatsKept},
	} {
		before := time.Now().Add(-s.after).UnixMicro()
		var found bool
		err := b.read(ctx, "prune", func(db queue.DB) error {
			return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&found) }, s.find, before)
		})
		if err == nil && found {
			err = b.write(ctx, "prune", func(ctx context.Context, db queue.DB) error {
				_, err := exec(ctx, db, s.remove, before)
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
