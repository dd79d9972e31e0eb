package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// ReportWorker implements [queue.Fleet] and [queue.Statistician] with sql/report_worker.sql.
func (b *Backend) ReportWorker(ctx context.Context, r queue.WorkerReport) error {
	const operation = "report a worker"
	if err := r.Check(); err != nil {
		return fmt.Errorf("postgres: %s: %w", operation, err)
	}
	info, err := json.Marshal(r.WorkerInfo)
	if err != nil {
		return fmt.Errorf("postgres: %s: %w", operation, err)
	}
	return b.run(ctx, operation, nil, func(db queue.DB) error {
		_, err := db.ExecContext(ctx, b.sql.reportWorker, r.Name, string(info), sqlkit.Microseconds(r.Age),
			sqlkit.OrNull(sqlkit.Microseconds(r.ClaimAge)), sqlkit.OrNull(sqlkit.Microseconds(r.DrainAge)), r.Stopped,
			statsRows(r.Stats))
		return err
	})
}

// Workers implements [queue.Fleet] with sql/workers.sql. A standby has none to return: it is an
// error there.
func (b *Backend) Workers(ctx context.Context) (all []queue.WorkerRecord, err error) {
	err = b.run(ctx, "list workers", nil, func(db queue.DB) error {
		all = nil
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var w queue.WorkerRecord
			var name string
			var info []byte
			var claimed, draining sql.NullTime
			var silent int64
			if err := rows.Scan(&name, &info, &w.StartedAt, &claimed, &draining, &w.SeenAt, &silent); err != nil {
				return err
			}
			w.ClaimedAt, w.DrainingAt = claimed.Time, draining.Time
			all = append(all, sqlkit.Worker(w, name, info, silent))
			return nil
		}, b.sql.workers)
	})
	return all, err
}

// Runs implements [queue.Fleet] with sql/runs.sql.
func (b *Backend) Runs(ctx context.Context, most int, workers ...string) (all []queue.Run, err error) {
	const operation = "list runs"
	if err := queue.CheckRuns(most, workers); err != nil {
		return nil, fmt.Errorf("postgres: %s: %w", operation, err)
	}
	var names any
	if len(workers) > 0 {
		names = textArray(workers)
	}
	err = b.run(ctx, operation, nil, func(db queue.DB) error {
		all = nil
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
			var r queue.Run
			var took int64
			err := rows.Scan(&r.Worker, &r.ID, &r.Queue, &r.Kind, &r.Attempt, &r.Since, &took)
			r.Took = sqlkit.Duration(max(took, 0))
			all = append(all, r)
			return err
		}, b.sql.runs, names, most)
	})
	return all, err
}
