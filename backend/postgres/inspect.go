package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// countable is the longest table, in bytes, that Counts reads as a whole. Of a longer one it reads
// a sample of this size.
const countable = 32 << 20

// Counts implements [queue.Inspector]. It counts a short table exactly, with sql/count_all.sql. For
// a longer one it estimates completed jobs from a sample of the table's pages, with
// sql/count_sample.sql.
func (b *Backend) Counts(ctx context.Context) (counts []queue.Count, err error) {
	err = b.run(ctx, "count", nil, func(db queue.DB) error {
		for _, query := range []string{b.sql.countAll, b.sql.countSample} {
			counts = nil
			err := sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
				var c queue.Count
				err := rows.Scan(&c.Queue, (*string)(&c.Status), &c.Jobs, &c.Exact)
				counts = append(counts, c)
				return err
			}, query, countable)
			if err != nil || len(counts) > 0 {
				return err
			}
		}
		return nil
	})
	return counts, err
}

// Jobs implements [queue.Inspector] with sql/list.sql for a filter that has an index, and with
// sql/list_slice.sql otherwise. For the observing role of docs/roles.sql the records have neither
// Payload nor Headers, and their Unreadable says so.
func (b *Backend) Jobs(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error) {
	f, err = f.Checked()
	if err != nil {
		return nil, 0, fmt.Errorf("postgres: list: %w", err)
	}
	before := cmp.Or(f.Before, math.MaxInt64)
	query, args := b.sql.listSlice, []any{sqlkit.OrNull(f.Queue), sqlkit.OrNull(f.Kind), sqlkit.OrNull(f.Key), before, f.Limit}
	if f.IsIndexed() {
		query = withStatus(b.sql.list, f.Status)
		args = append(args, f.Expired, sqlkit.OrNull(sqlkit.Microseconds(f.RunningFor)))
	} else {
		args = append(args, sqlkit.OrNull(string(f.Status)))
	}
	args = append(args, sqlkit.OrNull(f.Group), sqlkit.OrNull(f.MinAttempts))
	if f.Bare {
		page, err = b.readWithPayloads(ctx, "list", bare.Replace(withoutPayload.Replace(query)), args...)
	} else {
		page, err = b.readRecords(ctx, "list", query, args...)
	}
	if err != nil {
		return nil, 0, err
	}
	if n := len(page); n > 0 && page[n-1].Queue == "" { // see list_slice.sql
		return page[:n-1], page[n-1].ID, nil
	}
	return page, f.Next(page), nil
}

// withStatus returns sql/list.sql for jobs of the status. Running jobs are few, so all of them are
// read and sorted. Otherwise a plan that was made for an empty table could look for them along the
// primary key of a long one.
func withStatus(list string, status queue.Status) string {
	list = strings.Replace(list, "\n    AND true\n", "\n    AND status = '"+string(status)+"'\n", 1)
	if status == queue.StatusRunning {
		list = strings.Replace(list, "\nORDER BY id DESC\n", "\nORDER BY id + 0 DESC\n", 1)
	}
	return list
}

// Job implements [queue.Inspector] with sql/job.sql. For the observing role it is as Jobs says.
func (b *Backend) Job(ctx context.Context, id int64) (r queue.Record, ok bool, err error) {
	records, err := b.readRecords(ctx, "read job", b.sql.job, id)
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
	var readable bool
	err := b.run(ctx, operation, nil, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&readable) }, b.sql.readable)
	})
	if err != nil {
		return nil, err
	}
	if readable {
		return b.readWithPayloads(ctx, operation, query, args...)
	}
	records, err := b.readWithPayloads(ctx, operation, withoutPayload.Replace(query), args...)
	for i := range records {
		records[i].Unreadable = errNoRight
	}
	return records, err
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
