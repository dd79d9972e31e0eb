package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// row is what the statements return of a job. Integers are read as what they are: converting is
// what takes database/sql its time.
type row struct {
	id, priority, scheduledAt, attempts, maxAttempts, createdAt int64

	kind      string
	payload   []byte
	key       sql.NullString
	headers   []byte
	lastError sql.NullString
}

// columns are where to put the columns of sql/due.sql, with which those of every other statement
// begin that returns jobs.
func (r *row) columns(more ...any) []any {
	return append([]any{
		&r.id, &r.kind, &r.payload, &r.priority, &r.scheduledAt, &r.attempts, &r.maxAttempts, &r.createdAt, &r.key, &r.headers, &r.lastError,
	}, more...)
}

// fill puts the row in a job.
func (r *row) fill(job *queue.Job) {
	job.ID, job.Kind, job.Payload = r.id, r.kind, r.payload
	job.Priority, job.ScheduledAt = clamp32(r.priority), timeAt(r.scheduledAt)
	job.Attempt, job.MaxAttempts = int(clamp32(r.attempts)), int(clamp32(r.maxAttempts))
	job.CreatedAt, job.Key, job.LastError = timeAt(r.createdAt), r.key.String, r.lastError.String
	job.Headers = sqlkit.DecodeHeaders(r.headers)
}

// queryJobs reads jobs whose queue the statement tells in a last column.
func queryJobs(ctx context.Context, db queue.DB, query string, args ...any) (jobs []*queue.Job, err error) {
	var r row
	var name string
	columns := r.columns(&name)
	err = queryRows(ctx, db, func(rows *sql.Rows) error {
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		job := &queue.Job{Queue: name}
		r.fill(job)
		jobs = append(jobs, job)
		return nil
	}, query, args...)
	return jobs, err
}

// basket is what a claim has found.
type basket struct {
	jobs     []*queue.Job
	bytes    int  // how long their payloads and headers are
	overflow bool // the next did not fit
}

// isFull reports whether the request is satisfied.
func (k *basket) isFull(req queue.ClaimRequest) bool { return k.overflow || len(k.jobs) >= req.Limit }

// errFull ends the reading of rows.
var errFull = errors.New("full")

// fill reads jobs of that queue until the basket is full.
func (k *basket) fill(ctx context.Context, db queue.DB, name string, req queue.ClaimRequest, query string, args ...any) error {
	var r row
	columns := r.columns()
	err := queryRows(ctx, db, func(rows *sql.Rows) error {
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		if k.bytes += len(r.payload) + len(r.headers); k.bytes > req.MaxBytes() && len(k.jobs) > 0 {
			k.overflow = true
			return errFull
		}
		job := &queue.Job{Queue: name} // alone: within a block, one slow job would keep all payloads
		r.fill(job)
		k.jobs = append(k.jobs, job)
		return nil
	}, query, args...)
	if k.overflow {
		return nil
	}
	return err
}

// earliest and latest are the years of 1970 and 9999 in microseconds: other times, which SQL may
// have written, cannot be shown as JSON.
var earliest, latest = int64(0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMicro()

// timeAt is the time that is stored as that many microseconds, between earliest and latest.
func timeAt(us int64) time.Time { return time.UnixMicro(min(max(us, earliest), latest)).UTC() }

// timeOrZero is the time that is stored, or the zero time for NULL.
func timeOrZero(us sql.NullInt64) time.Time {
	if !us.Valid {
		return time.Time{}
	}
	return timeAt(us.Int64)
}

// clamp32 is n, or the end of int32's range that is nearest to it.
func clamp32(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
