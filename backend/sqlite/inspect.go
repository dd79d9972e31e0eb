package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// countable is the largest range of ids in which Counts reads every job. In a longer table it
	// reads a sample of about as many jobs, sampleRun ids at a time.
	countable = 100_000
	sampleRun = 100
	// In a longer table Counts counts at most maxPending pending jobs a queue, and at most maxOther
	// jobs of each other status but completed, of all queues together.
	maxPending = 10_000
	maxOther   = 100_000
)

// Counts implements [driver.Inspector]. It counts a short table exactly, with sql/count_all.sql. In
// a longer one sql/count_few.sql counts up to 10,000 pending jobs a queue, and up to 100,000 of
// each other status but completed. sql/count_sample.sql estimates the rest from a sample.
func (b *Backend) Counts(ctx context.Context) (counts []queue.StatusCount, err error) {
	err = b.read(ctx, "count", func(db queue.DB) error {
		var low, high sql.NullInt64
		err := queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&low, &high) }, b.sql["id_range"])
		if err != nil {
			return err
		}
		if span := high.Int64 - low.Int64 + 1; span > countable {
			counts, err = b.countSome(ctx, db, low.Int64, span)
			return err
		}
		counts, err = queryCounts(ctx, db, b.sql["count_all"])
		return err
	})
	slices.SortFunc(counts, func(a, b queue.StatusCount) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Status, b.Status))
	})
	return counts, err
}

// countSome counts a long table, whose ids begin with low.
func (b *Backend) countSome(ctx context.Context, db queue.DB, low, span int64) ([]queue.StatusCount, error) {
	few, err := queryCounts(ctx, db, b.sql["count_few"], maxPending, maxOther)
	if err != nil {
		return nil, err
	}
	const runs = countable / sampleRun
	var starts list
	for i := range int64(runs) {
		starts.int(low + int64(float64(span-sampleRun)*float64(i)/(runs-1)))
	}
	sample, err := queryCounts(ctx, db, b.sql["count_sample"], starts.String(), sampleRun)
	if err != nil {
		return nil, err
	}
	return estimate(few, sample, float64(span)/countable), nil
}

// estimate merges the counted jobs with the sample. A count of live or dead jobs is exact unless it
// has reached its limit.
func estimate(few, sample []queue.StatusCount, times float64) (counts []queue.StatusCount) {
	type group struct {
		queue  string
		status queue.Status
	}
	others := make(map[queue.Status]int64) // all but pending, in all queues
	for _, c := range few {
		others[c.Status] += c.Jobs
	}
	isCapped := func(c queue.StatusCount) bool {
		return c.Status == queue.StatusPending && c.Jobs == maxPending || c.Status != queue.StatusPending && others[c.Status] == maxOther
	}
	at := make(map[group]int)
	for _, c := range few {
		c.Exact = !isCapped(c)
		at[group{c.Queue, c.Status}] = len(counts)
		counts = append(counts, c)
	}
	for _, c := range sample {
		c.Jobs, c.Exact = int64(math.Round(float64(c.Jobs)*times)), false
		i, counted := at[group{c.Queue, c.Status}]
		switch {
		case counted && !counts[i].Exact:
			counts[i].Jobs = max(counts[i].Jobs, c.Jobs)
		case !counted && (c.Status == queue.StatusCompleted || c.Status == queue.StatusFailed || others[c.Status] == maxOther):
			counts = append(counts, c)
		}
	}
	return counts
}

func queryCounts(ctx context.Context, db queue.DB, query string, args ...any) ([]queue.StatusCount, error) {
	return queryAll(ctx, db, func(rows *sql.Rows, c *queue.StatusCount) error {
		c.Exact = true
		return rows.Scan(&c.Queue, (*string)(&c.Status), &c.Jobs)
	}, query, args...)
}

// Tally implements [driver.Inspector] with sql/tally.sql.
func (b *Backend) Tally(ctx context.Context, which queue.Selection) (counts []queue.StatusCount, err error) {
	if err := which.Check(driver.Statuses()...); err != nil {
		return nil, fmt.Errorf("sqlite: tally: %w", err)
	}
	query, ids := b.sql["tally"], any(idList(which.IDs))
	if which.IDs == nil {
		query, ids = strings.Replace(query, "id IN (SELECT value FROM json_each(?1))", "?1 IS NULL", 1), nil
	}
	if which.Status != "" {
		query = strings.Replace(query, "AND true", "AND status = '"+string(which.Status)+"'", 1)
	}
	args := []any{ids, sqlkit.OrNull(which.Queue), sqlkit.OrNull(which.Kind), sqlkit.OrNull(which.Group), sqlkit.OrNull(which.Key)}
	err = b.read(ctx, "tally", func(db queue.DB) error {
		counts, err = queryCounts(ctx, db, query, args...)
		return err
	})
	return counts, err
}

// Jobs implements [driver.Inspector] with sql/list.sql, or with sql/list_pending.sql for a filter
// that has an index, if few jobs have the status, or if it chooses by the status alone.
func (b *Backend) Jobs(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error) {
	f, err = f.Checked()
	if err != nil {
		return nil, 0, fmt.Errorf("sqlite: list: %w", err)
	}
	query, args := b.sql["list"], []any{sqlkit.OrNull(f.Queue), sqlkit.OrNull(f.Kind), sqlkit.OrNull(f.Key), sqlkit.OrNull(string(f.Status)), f.UpTo(), f.Limit}
	isListed, err := b.isListed(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	if isListed {
		query = strings.ReplaceAll(b.sql["list_pending"], string(queue.StatusPending), string(f.Status))
		args = append(slices.Delete(args, 3, 4), expiredAt(f), startedBy(f))
	}
	args = append(args, sqlkit.OrNull(f.Group), sqlkit.OrNull(f.MinAttempts), microsOrNull(f.CreatedFrom), microsOrNull(f.CreatedTo),
		microsOrNull(f.FinishedFrom), microsOrNull(f.FinishedTo))
	switch {
	case f.Bare:
		query = bare.Replace(query)
	case f.NoPayload:
		query = withoutPayload.Replace(query)
	}
	err = b.read(ctx, "list", func(db queue.DB) error {
		page, err = queryRecords(ctx, db, query, args...)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if n := len(page); n > 0 && page[n-1].Queue == "" { // see list.sql
		return page[:n-1], queue.Filter{Limit: 1}.Next(page[n-1:]), nil
	}
	return page, f.Next(page), nil
}

// isListed reports whether sql/list_pending.sql serves f: it reads all jobs of the status, and
// sorts pending ones, or those that finished at some time.
func (b *Backend) isListed(ctx context.Context, f queue.Filter) (few bool, err error) {
	if !f.IsIndexed() || f.Status == queue.StatusRunning {
		return f.IsIndexed(), nil
	}
	query := strings.ReplaceAll(b.sql["few_pending"], string(queue.StatusPending), string(f.Status))
	err = b.read(ctx, "list", func(db queue.DB) error {
		return queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&few) }, query)
	})
	isAll := f.Queue == "" && f.Kind == "" && f.Key == "" && f.Group == "" && f.MinAttempts == 0 && !f.HasTimes()
	return few || isAll && f.Status != queue.StatusPending, err
}

// withoutPayload changes sql/list.sql and sql/list_pending.sql for queue.Filter.NoPayload.
var withoutPayload = strings.NewReplacer("kind, payload, priority", "kind, NULL, priority", "job_key, headers, last_error,", "job_key, NULL, last_error,")

// bare changes them for queue.Filter.Bare.
var bare = strings.NewReplacer("kind, payload, priority", "kind, NULL, priority", "job_key, headers, last_error,", "NULL, NULL, NULL,")

// expiredAt returns the time before which the leases of the wanted jobs have ended, or nil for any
// job.
func expiredAt(f queue.Filter) any {
	if !f.Expired {
		return nil
	}
	return now()
}

// startedBy returns the latest time at which the runs of the wanted jobs began, or nil for any job.
func startedBy(f queue.Filter) any {
	if f.RunningFor == 0 {
		return nil
	}
	return now() - sqlkit.Microseconds(f.RunningFor)
}

// microsOrNull returns the bound t as the tables have times, or NULL where t is zero.
func microsOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return sqlkit.Bound(t).UnixMicro()
}

// Job implements [driver.Inspector] with sql/job.sql.
func (b *Backend) Job(ctx context.Context, id int64) (r queue.Record, ok bool, err error) {
	var records []queue.Record
	err = b.read(ctx, "look", func(db queue.DB) error {
		records, err = queryRecords(ctx, db, b.sql["job"], id)
		return err
	})
	if err != nil || len(records) == 0 {
		return queue.Record{}, false, err
	}
	return records[0], true, nil
}

// queryRecords reads the columns that sql/list.sql and sql/job.sql return.
func queryRecords(ctx context.Context, db queue.DB, query string, args ...any) (records []queue.Record, err error) {
	records = []queue.Record{} // not nil, so that no jobs are [] in JSON
	err = queryRows(ctx, db, func(rows *sql.Rows) error {
		var r row
		var rec queue.Record
		var worker sql.NullString
		var locked, until, started, finished, redriven, cancel sql.NullInt64
		var updated, redrives int64
		var history []byte
		err := rows.Scan(r.columns(&rec.Queue, &rec.Fence, &worker, (*string)(&rec.Status), &locked, &until, &updated,
			&started, &finished, &redriven, &redrives, &cancel, &history, &rec.Cost)...)
		if err != nil {
			return err
		}
		r.fill(&rec.Job)
		rec.Worker, rec.UpdatedAt = worker.String, timeAt(updated)
		rec.RedrivenAt, rec.Redrives = timeOrZero(redriven), int(clamp32(redrives))
		rec.CancelAt, rec.History = timeOrZero(cancel), sqlkit.DecodeHistory(history)
		sqlkit.RunTimes{
			Locked: timeOrZero(locked), LockedUntil: timeOrZero(until), Started: timeOrZero(started), Finished: timeOrZero(finished),
		}.Fill(&rec)
		records = append(records, rec)
		return nil
	}, query, args...)
	return records, err
}
