package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// countable is the longest table, in bytes, that Counts reads as a whole.
	countable = 32 << 20
	// sampleSize is how many bytes of a longer table it reads.
	sampleSize = 8 << 20
)

// Counts implements [driver.Inspector]. It counts a short table exactly, with sql/count_all.sql.
// For a longer one it estimates completed jobs from a sample of the table's pages, with
// sql/count_sample.sql.
func (b *Backend) Counts(ctx context.Context) (counts []queue.StatusCount, err error) {
	err = b.run(ctx, "count", nil, func(db queue.DB) error {
		var size int64
		err := sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&size) }, b.sql["table_size"])
		if err != nil {
			return err
		}
		query, args := b.sql["count_all"], []any(nil)
		if size > countable {
			query, args = b.sql["count_sample"], []any{100 * sampleSize / float64(size)}
		}
		counts, err = sqlkit.QueryAll(ctx, db, scanCount, query, args...)
		return err
	})
	return counts, err
}

func scanCount(rows *sql.Rows, c *queue.StatusCount) error {
	return rows.Scan(&c.Queue, (*string)(&c.Status), &c.Jobs, &c.Exact)
}

// Tally implements [driver.Inspector] with sql/tally.sql.
func (b *Backend) Tally(ctx context.Context, which queue.Selection) (counts []queue.StatusCount, err error) {
	if err := which.Check(driver.Statuses()...); err != nil {
		return nil, fmt.Errorf("postgres: tally: %w", err)
	}
	query, ids := b.sql["tally"], any(idArray(which.IDs))
	if which.IDs == nil {
		query, ids = strings.Replace(query, "id = ANY (($1::text)::bigint[])", "$1::text IS NULL", 1), nil
	}
	if which.Status != "" {
		query = strings.Replace(query, "\n    AND true\n", "\n    AND status = '"+string(which.Status)+"'\n", 1)
	}
	args := []any{ids, sqlkit.OrNull(which.Queue), sqlkit.OrNull(which.Kind), sqlkit.OrNull(which.Group), sqlkit.OrNull(which.Key)}
	err = b.run(ctx, "tally", nil, func(db queue.DB) error {
		counts, err = sqlkit.QueryAll(ctx, db, scanCount, query, args...)
		return err
	})
	return counts, err
}

// Jobs implements [driver.Inspector]. A filter that has an index is served by sql/list.sql, and
// others by sql/list_slice.sql, which looks at a bounded number of jobs. So are dead, held and
// cancelled jobs, along an index of their ids, unless few have finished since f.FinishedFrom. For
// the observing role of docs/roles.sql the records have neither Payload nor Headers, and their
// Unreadable says so.
func (b *Backend) Jobs(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error) {
	f, err = f.Checked()
	if err != nil {
		return nil, 0, fmt.Errorf("postgres: list: %w", err)
	}
	isListed, err := b.isListed(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	query, args := "", []any{sqlkit.OrNull(f.Queue), sqlkit.OrNull(f.Kind), sqlkit.OrNull(f.Key), f.UpTo(), f.Limit}
	if isListed {
		query = b.sql.listOf(f.Status)
		args = append(args, f.Expired, sqlkit.OrNull(sqlkit.Microseconds(f.RunningFor)))
	} else {
		query = b.sql.sliceOf(f)
		args = append(args, sqlkit.OrNull(string(f.Status)))
	}
	args = append(args, sqlkit.OrNull(f.Group), sqlkit.OrNull(f.MinAttempts), boundOrNull(f.CreatedFrom), boundOrNull(f.CreatedTo),
		boundOrNull(f.FinishedFrom), boundOrNull(f.FinishedTo))
	switch {
	case f.Bare:
		page, err = b.readWithPayloads(ctx, "list", bare.Replace(withoutPayload.Replace(query)), args...)
	case f.NoPayload:
		page, err = b.readWithPayloads(ctx, "list", withoutPayload.Replace(query), args...)
	default:
		page, err = b.readRecords(ctx, "list", query, args...)
	}
	if err != nil {
		return nil, 0, err
	}
	if n := len(page); n > 0 && page[n-1].Status == "" { // see list_slice.sql
		return page[:n-1], queue.Filter{Limit: 1}.Next(page[n-1:]), nil
	}
	return page, f.Next(page), nil
}

// boundOrNull returns the bound t, or NULL where t is zero, whatever its zone.
func boundOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return sqlkit.Bound(t)
}

// isListed reports whether sql/list.sql serves f. Of pending jobs it lists those of a queue, or
// all, if they are few: they are read and sorted, whatever kind or key f asks for. Of dead, held
// and cancelled jobs it lists only those that have finished lately, if they are few.
func (b *Backend) isListed(ctx context.Context, f queue.Filter) (is bool, err error) {
	if f.Status == queue.StatusPending && f.IsIndexed() {
		err = b.run(ctx, "list", nil, func(db queue.DB) error {
			return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&is) }, b.sql["few_pending"], sqlkit.OrNull(f.Queue))
		})
		return is, err
	}
	if !isStopped(f.Status) {
		return f.IsIndexed(), nil
	}
	if f.FinishedFrom.IsZero() {
		return false, nil
	}
	query := "SELECT count(*) < 5000 FROM (\n" + strings.ReplaceAll(b.sql.idsOf(f.Status), "$12", "$1") + "\n) AS found"
	err = b.run(ctx, "list", nil, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&is) }, query, boundOrNull(f.FinishedFrom))
	})
	return is, err
}

// isStopped reports whether jobs of the status are in jobs_stopped_idx and jobs_stopped_id_idx.
func isStopped(status queue.Status) bool {
	return status == queue.StatusDead || status == queue.StatusHeld || status == queue.StatusCancelled
}

// idsOf returns sql/stopped_ids.sql for jobs of the status.
func (s statements) idsOf(status queue.Status) string {
	return strings.Replace(strings.TrimRight(s["stopped_ids"], ";\n"), "\nWHERE true\n", "\nWHERE status = '"+string(status)+"'\n", 1)
}

// listOf returns sql/list.sql for jobs of the status. Stopped jobs are found by their ids, and all
// running ones, or few pending ones, are read and sorted. Otherwise a plan that was made for an
// empty table, or with old statistics, could look for them along the primary key of a long one.
func (s statements) listOf(status queue.Status) string {
	const order = "\nORDER BY id DESC\n"
	list := strings.Replace(s["list"], "\n    AND true\n", "\n    AND status = '"+string(status)+"'\n", 1)
	switch {
	case status == queue.StatusRunning, status == queue.StatusPending:
		return strings.Replace(list, order, "\nORDER BY id + 0 DESC\n", 1)
	case isStopped(status):
		return strings.Replace(list, order, "\n    AND id = ANY (ARRAY(\n"+s.idsOf(status)+"\n))"+order, 1)
	}
	return list
}

// sliceOf returns sql/list_slice.sql for jobs of f. For stopped ones it walks jobs_stopped_id_idx
// instead of the primary key. Only this index has the order status, id, and many is as in
// sql/sleep.sql, so no plan reads all stopped jobs and sorts them. The index passes over jobs of
// other queues and kinds without reading them, ten million a second. If f chooses by nothing else,
// a short page is the last one, and there is no place where it stopped. The rows of the page are
// then read by ascending ids: jobs that died together are neighbours on the disk, and an operating
// system reads ahead only forward.
func (s statements) sliceOf(f queue.Filter) string {
	if !isStopped(f.Status) {
		return s["list_slice"]
	}
	where := fmt.Sprintf("WHERE status IN ('dead', 'held', 'cancelled') AND status >= '%[1]s' AND (status, id) <= ('%[1]s', $4::bigint)", f.Status)
	if f.Queue != "" {
		where += " AND queue = $1::text"
	}
	if f.Kind != "" {
		where += " AND kind = $2::text"
	}
	list := strings.NewReplacer(
		"WHERE id <= $4::bigint", where,
		"ORDER BY id DESC\n    LIMIT $5", "ORDER BY slice.status DESC, slice.id DESC\n    LIMIT $5", "ORDER BY id DESC", "ORDER BY status DESC, id DESC",
	).Replace(s["list_slice"])
	if f.Key != "" || f.Group != "" || f.MinAttempts != 0 || f.HasTimes() {
		return list
	}
	head, tail, _ := strings.Cut(list, "job_group, cancel_at, cost\n        FROM ")
	found, tail, _ := strings.Cut(tail, "LIMIT 50000\n")
	table, _, _ := strings.Cut(found, " CROSS JOIN")
	return strings.Replace(head, "OFFSET 49999 LIMIT 1", "LIMIT 0", 1) + "job_group, cancel_at, cost\n        FROM " + table +
		"\n        WHERE id = ANY (ARRAY(SELECT id FROM " + found + "LIMIT $5::integer))\n" + tail
}

// Job implements [driver.Inspector] with sql/job.sql. For the observing role it is as Jobs says.
func (b *Backend) Job(ctx context.Context, id int64) (r queue.Record, ok bool, err error) {
	records, err := b.readRecords(ctx, "read job", b.sql["job"], id)
	if err != nil || len(records) == 0 {
		return queue.Record{}, false, err
	}
	return records[0], true, nil
}

// errNoRight marks the records that an observer reads.
var errNoRight = errors.New("errand: this role may not read payloads and headers")

// readRecords returns the rows of a statement like sql/list.sql. If the role may not read payloads
// and headers, the records have none, and Unreadable says so.
func (b *Backend) readRecords(ctx context.Context, operation, query string, args ...any) ([]queue.Record, error) {
	isReadable, err := b.isTrue(ctx, operation, b.sql["readable"])
	if err != nil {
		return nil, err
	}
	if isReadable {
		return b.readWithPayloads(ctx, operation, query, args...)
	}
	records, err := b.readWithPayloads(ctx, operation, withoutPayload.Replace(query), args...)
	for i := range records {
		records[i].Unreadable = errNoRight
	}
	return records, err
}

// isTrue returns what a query reports.
func (b *Backend) isTrue(ctx context.Context, operation, query string) (yes bool, err error) {
	err = b.run(ctx, operation, nil, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&yes) }, query)
	})
	return yes, err
}

// withoutPayload changes a statement like sql/list.sql: the server checks the right to read a
// column that the statement names, even if it returns none.
var withoutPayload = strings.NewReplacer("THEN payload END", "THEN NULL::jsonb END", "THEN headers END", "THEN NULL::jsonb END",
	"payload, headers,\n", "\n")

// bare changes sql/list.sql and sql/list_slice.sql further, for queue.Filter.Bare.
var bare = strings.NewReplacer("coalesce(job_key, '')", "''", "coalesce(left(last_error, 8192), '')", "''",
	"($3::text IS NULL OR job_key = $3::text)", "$3::text IS NULL", "job_key, last_error, locked_at,\n", "locked_at,\n")

// readWithPayloads runs a statement like sql/list.sql. The statement's last parameter says whether
// it returns payloads and headers. If one cannot be read, readWithPayloads reads them job by job.
func (b *Backend) readWithPayloads(ctx context.Context, operation, query string, args ...any) (records []queue.Record, err error) {
	read := func(withPayloads bool) error {
		return b.run(ctx, operation, nil, func(db queue.DB) error {
			records, err = queryRecords(ctx, db, query, append(args, withPayloads)...)
			return err
		})
	}
	err = read(true)
	if !isDataError(err) {
		return records, err
	}
	if err := read(false); err != nil {
		return nil, err
	}
	for i := range records {
		if err := b.readPayload(ctx, operation, &records[i].Job); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// queryRecords reads the columns that sql/list.sql, sql/list_slice.sql and sql/job.sql return.
func queryRecords(ctx context.Context, db queue.DB, query string, args ...any) (records []queue.Record, err error) {
	records = []queue.Record{} // not nil, so that no jobs are [] in JSON
	err = sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
		var r queue.Record
		var headers, history []byte
		var locked, until, started, finished, redriven, cancel sql.NullTime
		err := rows.Scan(&r.ID, &r.Queue, &r.Kind, (*[]byte)(&r.Payload), &r.Priority, &r.ScheduledAt,
			&r.Attempt, &r.MaxAttempts, &r.Fence, &r.CreatedAt, &r.Key, &headers, &r.LastError, &r.Group,
			&r.Worker, (*string)(&r.Status), &locked, &until, &r.UpdatedAt,
			&started, &finished, &redriven, &r.Redrives, &cancel, &history, &r.Cost)
		if err != nil {
			return err
		}
		noteOrdered(&r.Job)
		r.Headers = sqlkit.DecodeHeaders(headers)
		r.RedrivenAt, r.CancelAt, r.History = redriven.Time, cancel.Time, sqlkit.DecodeHistory(history)
		sqlkit.RunTimes{Locked: locked.Time, LockedUntil: until.Time, Started: started.Time, Finished: finished.Time}.Fill(&r)
		records = append(records, r)
		return nil
	}, query, args...)
	return records, err
}
