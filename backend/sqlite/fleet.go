package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// ReportWorker implements [queue.Fleet] with sql/report_worker.sql, and [queue.Statistician] with
// sql/write_stats.sql. It writes, and so takes its turn like any other call.
func (b *Backend) ReportWorker(ctx context.Context, r queue.WorkerReport) error {
	const operation = "report a worker"
	if err := r.Check(); err != nil {
		return fmt.Errorf("sqlite: %s: %w", operation, err)
	}
	info, err := json.Marshal(r.WorkerInfo)
	if err != nil {
		return fmt.Errorf("sqlite: %s: %w", operation, err)
	}
	return b.write(ctx, operation, func(ctx context.Context, db queue.DB) (err error) {
		at := now()
		if err := b.addStats(ctx, db, at, r.Stats); err != nil {
			return err
		}
		if r.Stopped {
			_, err = exec(ctx, db, b.sql.removeWorker, r.Name)
			return err
		}
		_, err = exec(ctx, db, b.sql.reportWorker, r.Name, string(info), at-sqlkit.Microseconds(r.Age), ago(at, r.ClaimAge), ago(at, r.DrainAge), at)
		return err
	})
}

// ago returns the time that was age before at, or NULL if age is 0.
func ago(at int64, age time.Duration) any {
	if age == 0 {
		return nil
	}
	return at - sqlkit.Microseconds(age)
}

// Workers implements [queue.Fleet] with sql/workers.sql.
func (b *Backend) Workers(ctx context.Context) (all []queue.WorkerRecord, err error) {
	err = b.read(ctx, "list workers", func(db queue.DB) error {
		all = nil
		at := now()
		return queryRows(ctx, db, func(rows *sql.Rows) error {
			var w queue.WorkerRecord
			var name string
			var info []byte
			var started, seen int64
			var claimed, draining sql.NullInt64
			if err := rows.Scan(&name, &info, &started, &claimed, &draining, &seen); err != nil {
				return err
			}
			w.StartedAt, w.ClaimedAt, w.DrainingAt, w.SeenAt = timeAt(started), timeOrZero(claimed), timeOrZero(draining), timeAt(seen)
			all = append(all, sqlkit.Worker(w, name, info, at-seen))
			return nil
		}, b.sql.workers)
	})
	return all, err
}

// Runs implements [queue.Fleet] with sql/runs.sql.
func (b *Backend) Runs(ctx context.Context, most int, workers ...string) (all []queue.Run, err error) {
	const operation = "list runs"
	if err := queue.CheckRuns(most, workers); err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", operation, err)
	}
	var names any
	if len(workers) > 0 {
		names = stringList(workers)
	}
	err = b.read(ctx, operation, func(db queue.DB) error {
		all = nil
		at := now()
		return queryRows(ctx, db, func(rows *sql.Rows) error {
			var r queue.Run
			var attempts, since int64
			err := rows.Scan(&r.Worker, &r.ID, &r.Queue, &r.Kind, &attempts, &since)
			r.Attempt, r.Since, r.Took = int(clamp32(attempts)), timeAt(since), sqlkit.Duration(max(at-since, 0))
			all = append(all, r)
			return err
		}, b.sql.runs, names, most)
	})
	return all, err
}
