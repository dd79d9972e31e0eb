package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// row receives the columns that the statements return of a job. Its integers have the type that the
// drivers return, because conversions take database/sql most of its time.
type row struct {
	id, priority, scheduledAt, attempts, maxAttempts, createdAt int64

	kind      string
	payload   []byte
	key       sql.NullString
	headers   []byte
	lastError sql.NullString
	group     sql.NullString
}

// columns returns scan targets for the columns of sql/due.sql, and then more. Other statements that
// return jobs return the same columns first.
func (r *row) columns(more ...any) []any {
	return append([]any{
		&r.id, &r.kind, &r.payload, &r.priority, &r.scheduledAt, &r.attempts, &r.maxAttempts, &r.createdAt, &r.key, &r.headers, &r.lastError,
		&r.group,
	}, more...)
}

// fill copies the row into job.
func (r *row) fill(job *queue.Job) {
	job.ID, job.Kind, job.Payload = r.id, r.kind, r.payload
	job.Priority, job.ScheduledAt = clamp32(r.priority), timeAt(r.scheduledAt)
	if r.priority == orderedPriority {
		job.Priority, job.Ordered = 0, true
	}
	job.Attempt, job.MaxAttempts = int(clamp32(r.attempts)), int(clamp32(r.maxAttempts))
	job.CreatedAt, job.Key, job.LastError, job.Group = timeAt(r.createdAt), r.key.String, r.lastError.String, r.group.String
	job.Headers = sqlkit.DecodeHeaders(r.headers)
}

// queryJobs runs a statement that returns jobs, with the name of the queue as the last column.
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

// claimResult collects the jobs that a claim finds.
type claimResult struct {
	at       int64 // the time of the claim
	jobs     []*queue.Job
	passed   []int64                                // the ids that the claim passes over, in ascending order
	bytes    int                                    // the length of their payloads and headers
	refused  []badrows.Row                          // jobs that could not be claimed
	overflow bool                                   // the next job did not fit
	turns    map[string]turn                        // of the queues with ordered jobs
	limited  map[string]limits.LastClaim[lastClaim] // of the limited queues
	meters   map[string]*limits.Meter               // of the limited queues with rates
}

// isFull reports whether the request is satisfied.
func (c *claimResult) isFull(req queue.ClaimRequest) bool {
	return c.overflow || len(c.jobs) >= req.Limit
}

// limitAt is where sql/due.sql and its siblings have their limit.
const limitAt = 3

// errFull ends the reading of rows.
var errFull = errors.New("full")

// fill reads jobs of that queue until the result is full. The fourth argument of a query that has
// so many is the most jobs that it returns.
func (c *claimResult) fill(ctx context.Context, db queue.DB, name string, req queue.ClaimRequest, query string, args ...any) error {
	var r row
	columns := r.columns()
	room := math.MaxInt
	if len(c.passed) > 0 && len(args) > limitAt {
		room = args[limitAt].(int)
		args[limitAt] = room + len(c.passed)
	}
	err := queryRows(ctx, db, func(rows *sql.Rows) error {
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		if _, isPassed := slices.BinarySearch(c.passed, r.id); isPassed {
			return nil
		}
		if room--; room < 0 {
			return errFull
		}
		if c.bytes += len(r.payload) + len(r.headers); c.bytes > req.MaxBytes() && len(c.jobs) > 0 {
			c.overflow = true
			return errFull
		}
		job := &queue.Job{Queue: name} // allocated alone: in a block, one slow job would keep all payloads in memory
		r.fill(job)
		c.jobs = append(c.jobs, job)
		return nil
	}, query, args...)
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// earliest and latest are the beginning of 1970 and the end of 9999 in microseconds. SQL may have
// written other times, which have no JSON form.
var earliest, latest = int64(0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMicro()

// timeAt returns the time that is stored as that many microseconds, limited to earliest and latest.
func timeAt(us int64) time.Time { return time.UnixMicro(min(max(us, earliest), latest)).UTC() }

// timeOrZero returns the time that is stored, or the zero time for NULL.
func timeOrZero(us sql.NullInt64) time.Time {
	if !us.Valid {
		return time.Time{}
	}
	return timeAt(us.Int64)
}

// clamp32 returns n, limited to the range of int32.
func clamp32(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
