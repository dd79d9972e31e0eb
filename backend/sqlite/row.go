package sqlite

import (
	"context"
	"database/sql"
	"math"
	"time"

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
	job.Headers = headersOf(r.headers)
}

// queryJobs reads jobs of that queue, or, where it is "", of those that the statement tells
// in a last column.
func queryJobs(ctx context.Context, db queue.DB, name string, size int, query string, args ...any) ([]*queue.Job, error) {
	jobs := make([]*queue.Job, 0, min(size, 1000))
	var r row
	columns := r.columns()
	if name == "" {
		columns = append(columns, &name)
	}
	err := each(ctx, db, func(rows *sql.Rows) error {
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		job := &queue.Job{Queue: name} // alone: within a block, one slow job would keep all payloads
		r.fill(job)
		jobs = append(jobs, job)
		return nil
	}, query, args...)
	return jobs, err
}

// earliest and latest are the years of 1970 and 9999 in microseconds: other times, which SQL may have
// written, cannot be shown as JSON.
var earliest, latest = int64(0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMicro()

// timeAt is the time that is stored as that many microseconds, between earliest and latest.
func timeAt(us int64) time.Time { return time.UnixMicro(min(max(us, earliest), latest)).UTC() }

// clamp32 is n, or the end of int32's range that is nearest to it.
func clamp32(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
