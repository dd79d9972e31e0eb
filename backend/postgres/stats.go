package postgres

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

// statsRow is a [driver.MinuteStats] as sql/report_workers.sql reads it. Durations are in
// microseconds.
type statsRow struct {
	Age       int64           `json:"age"`
	Queue     string          `json:"queue"`
	Kind      string          `json:"kind"`
	Done      int64           `json:"done"`
	Failed    int64           `json:"failed"`
	Dead      int64           `json:"dead"`
	Lost      int64           `json:"lost"`
	Ran       int64           `json:"ran"`
	Waited    int64           `json:"waited"`
	RunTimes  queue.Histogram `json:"run_times"`
	WaitTimes queue.Histogram `json:"wait_times"`
}

// sumStats returns the statistics of reports, each minute, queue and kind once. Those of one report
// are so already. The ages of several workers' minutes differ by less than a minute, so sumStats
// counts them in the minutes of now, which is the time of this process.
func sumStats(now time.Time, reports []driver.WorkerReport) (sums []driver.MinuteStats) {
	if len(reports) == 1 {
		return reports[0].Stats
	}
	type key struct {
		minute      time.Time
		queue, kind string
	}
	at := make(map[key]int)
	for _, r := range reports {
		for _, s := range r.Stats {
			k := key{s.Minute(now), s.Queue, s.Kind}
			i, ok := at[k]
			if !ok {
				i = len(sums)
				at[k] = i
				sums = append(sums, driver.MinuteStats{Queue: s.Queue, Kind: s.Kind, Age: now.Sub(k.minute)})
			}
			sums[i].Add(s.Stats)
		}
	}
	return sums
}

// statsRows returns statistics as a JSON array for sql/report_workers.sql.
func statsRows(all []driver.MinuteStats) string {
	rows := make([]statsRow, len(all))
	for i, s := range all {
		rows[i] = statsRow{
			sqlkit.Microseconds(s.Age), s.Queue, s.Kind, s.Done, s.Failed, s.Dead, s.Lost, sqlkit.Microseconds(s.Ran), sqlkit.Microseconds(s.Waited),
			s.RunTimes, s.WaitTimes,
		}
	}
	text, _ := json.Marshal(rows) // numbers and names always marshal
	return string(text)
}

// Stats implements [driver.Statistician] with sql/stats.sql.
func (b *Backend) Stats(ctx context.Context, f queue.StatsFilter) (all []queue.StatsRecord, err error) {
	const operation = "statistics"
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("postgres: %s: %w", operation, err)
	}
	args := []any{
		sqlkit.OrNull(f.Queue), sqlkit.OrNull(f.Kind), sqlkit.OrNull(f.From), sqlkit.OrNull(f.To), sqlkit.OrNull(int64(f.Step / time.Second)),
		f.ByQueue, f.ByKind, f.Times,
	}
	return readAll(ctx, b, operation, func(rows *sql.Rows, r *queue.StatsRecord) error {
		var ran, waited int64
		var runTimes, waitTimes []byte
		err := rows.Scan(&r.At, &r.Queue, &r.Kind, &r.Done, &r.Failed, &r.Dead, &r.Lost, &ran, &waited, &runTimes, &waitTimes)
		r.At, r.Ran, r.Waited = r.At.UTC(), sqlkit.Duration(ran), sqlkit.Duration(waited)
		r.RunTimes, r.WaitTimes = sqlkit.DecodeHistogram(runTimes), sqlkit.DecodeHistogram(waitTimes)
		return err
	}, b.sql["stats"], args...)
}
