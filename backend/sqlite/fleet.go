package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// ReportWorkers implements [driver.Fleet] with sql/report_worker.sql, and [driver.Statistician]
// with sql/write_stats.sql. It writes, and so takes its turn like any other call.
func (b *Backend) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	const operation = "report workers"
	if err := driver.CheckReports(reports...); err != nil {
		return fmt.Errorf("sqlite: %s: %w", operation, err)
	}
	if len(reports) == 0 {
		return nil
	}
	var stats []driver.MinuteStats
	for _, r := range reports {
		stats = append(stats, r.Stats...)
	}
	return b.write(ctx, operation, func(ctx context.Context, db queue.DB) error {
		at := now()
		for _, r := range reports {
			if err := b.reportWorker(ctx, db, at, r); err != nil {
				return err
			}
		}
		return b.addStats(ctx, db, at, stats)
	})
}

// reportWorker records a report, but for its Stats, in the transaction db.
func (b *Backend) reportWorker(ctx context.Context, db queue.DB, at int64, r driver.WorkerReport) error {
	if r.Stopped {
		_, err := exec(ctx, db, b.sql["remove_worker"], r.Name)
		return err
	}
	info, err := json.Marshal(r.WorkerInfo)
	if err != nil {
		return err
	}
	_, err = exec(ctx, db, b.sql["report_worker"], r.Name, string(info), at-sqlkit.Microseconds(r.Age), ago(at, r.ClaimAge), ago(at, r.DrainAge), at)
	return err
}

// ago returns the time that was age before at, or NULL if age is 0.
func ago(at int64, age time.Duration) any {
	if age == 0 {
		return nil
	}
	return at - sqlkit.Microseconds(age)
}

// Workers implements [driver.Fleet] with sql/workers.sql.
func (b *Backend) Workers(ctx context.Context) ([]driver.WorkerRecord, error) {
	return readAll(ctx, b, "list workers", func(rows *sql.Rows, w *driver.WorkerRecord) error {
		var name string
		var info []byte
		var started, seen int64
		var claimed, draining sql.NullInt64
		err := rows.Scan(&name, &info, &started, &claimed, &draining, &seen)
		w.StartedAt, w.ClaimedAt, w.DrainingAt, w.SeenAt = timeAt(started), timeOrZero(claimed), timeOrZero(draining), timeAt(seen)
		*w = sqlkit.Worker(*w, name, info, now()-seen)
		return err
	}, b.sql["workers"])
}

// Runs implements [driver.Fleet] with sql/runs.sql.
func (b *Backend) Runs(ctx context.Context, most int, workers ...string) ([]driver.RunningJob, error) {
	const operation = "list runs"
	if err := driver.CheckRuns(most, workers); err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", operation, err)
	}
	var names any
	if len(workers) > 0 {
		names = stringList(workers)
	}
	return readAll(ctx, b, operation, func(rows *sql.Rows, r *driver.RunningJob) error {
		var attempts, since int64
		err := rows.Scan(&r.Worker, &r.ID, &r.Queue, &r.Kind, &attempts, &since)
		r.Attempt, r.Since, r.Took = int(clamp32(attempts)), timeAt(since), sqlkit.Duration(max(now()-since, 0))
		return err
	}, b.sql["runs"], names, most)
}
