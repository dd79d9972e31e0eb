package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// ReportWorkers implements [driver.Fleet] and [driver.Statistician] with sql/report_workers.sql. If
// some workers have stopped and others have not, it takes two statements.
func (b *Backend) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	const operation = "report workers"
	if err := driver.CheckReports(reports...); err != nil {
		return fmt.Errorf("postgres: %s: %w", operation, err)
	}
	stats := sumStats(time.Now(), reports)
	live, stopped := reportRows(reports)
	for _, rows := range [][]reportRow{live, stopped} {
		if len(rows) == 0 {
			continue
		}
		if err := b.writeReports(ctx, operation, rows, stats); err != nil {
			return err
		}
		stats = nil
	}
	return nil
}

// reportRow is a [driver.WorkerReport] as sql/report_workers.sql reads it. Ages are in
// microseconds.
type reportRow struct {
	Worker    string            `json:"worker"`
	Info      driver.WorkerInfo `json:"info"`
	Age       int64             `json:"age"`
	ClaimAge  int64             `json:"claim_age,omitempty"`
	DrainAge  int64             `json:"drain_age,omitempty"`
	isStopped bool
}

// reportRows returns the last report of each worker: of those that live, and of those that have
// stopped.
func reportRows(reports []driver.WorkerReport) (live, stopped []reportRow) {
	isLater := make(map[string]bool, len(reports))
	for _, r := range slices.Backward(reports) {
		if isLater[r.Name] {
			continue
		}
		isLater[r.Name] = true
		row := reportRow{r.Name, r.WorkerInfo, sqlkit.Microseconds(r.Age), sqlkit.Microseconds(r.ClaimAge), sqlkit.Microseconds(r.DrainAge), r.Stopped}
		if r.Stopped {
			stopped = append(stopped, row)
		} else {
			live = append(live, row)
		}
	}
	return live, stopped
}

// writeReports writes rows, all of workers that have stopped or none, and statistics.
func (b *Backend) writeReports(ctx context.Context, operation string, rows []reportRow, stats []driver.MinuteStats) error {
	text, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("postgres: %s: %w", operation, err)
	}
	return b.run(ctx, operation, nil, func(db queue.DB) error {
		_, err := db.ExecContext(ctx, b.sql["report_workers"], string(text), rows[0].isStopped, statsRows(stats))
		return err
	})
}

// Workers implements [driver.Fleet] with sql/workers.sql. A standby has none to return: it is an
// error there.
func (b *Backend) Workers(ctx context.Context) ([]driver.WorkerRecord, error) {
	return readAll(ctx, b, "list workers", func(rows *sql.Rows, w *driver.WorkerRecord) error {
		var name string
		var info []byte
		var claimed, draining sql.NullTime
		var silent int64
		err := rows.Scan(&name, &info, &w.StartedAt, &claimed, &draining, &w.SeenAt, &silent)
		w.ClaimedAt, w.DrainingAt = claimed.Time, draining.Time
		*w = sqlkit.Worker(*w, name, info, silent)
		return err
	}, b.sql["workers"])
}

// Runs implements [driver.Fleet] with sql/runs.sql.
func (b *Backend) Runs(ctx context.Context, most int, workers ...string) ([]driver.RunningJob, error) {
	const operation = "list runs"
	if err := driver.CheckRuns(most, workers); err != nil {
		return nil, fmt.Errorf("postgres: %s: %w", operation, err)
	}
	var names any
	if len(workers) > 0 {
		names = textArray(workers)
	}
	return readAll(ctx, b, operation, func(rows *sql.Rows, r *driver.RunningJob) error {
		var took int64
		err := rows.Scan(&r.Worker, &r.ID, &r.Queue, &r.Kind, &r.Attempt, &r.Since, &took)
		r.Took = sqlkit.Duration(max(took, 0))
		return err
	}, b.sql["runs"], names, most)
}
