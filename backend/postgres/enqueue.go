package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/internal/ownkey"
	"github.com/errandhq/errand/queue"
)

// Enqueue implements [queue.Enqueuer] with sql/enqueue_one.sql, sql/enqueue_plain.sql,
// or, where a job has a key, sql/enqueue_one_keyed.sql or sql/enqueue.sql. Outside a transaction its error is
// [queue.ErrUnknown] where the server has not answered.
func (b *Backend) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	for i, job := range jobs {
		if err := job.Check(b.options.MaxPayload); err != nil {
			return fmt.Errorf("postgres: enqueue: job %d of %d: %w", i+1, len(jobs), err)
		}
	}
	write := b.writePlain
	if slices.ContainsFunc(jobs, func(j *queue.Job) bool { return j.Key != "" }) {
		write = b.write
	}
	return b.on(ctx, "enqueue", db, func(db queue.DB) error {
		err := tooMuch(through(ctx, db, func(db queue.DB) error { return write(ctx, db, jobs) }))
		if kind, _ := handle.Of(db); err == nil && kind == handle.Tx {
			err = ownkey.Check(ctx, jobs)
		}
		return err
	})
}

// tooMuch says [queue.InvalidError] where a payload, or all of them together, are more than the server can make a jsonb of. That depends
// on how many values there are in it, and is met only where MaxPayload has been raised far.
func tooMuch(err error) error {
	const programLimitExceeded, internalError, checkViolation = "54000", "XX000", "23514"
	if errors.Is(err, queue.ErrUnknown) {
		return err // of a later round: others are written
	}
	code := sqlState(err)
	if code == programLimitExceeded || code == internalError && strings.Contains(err.Error(), "invalid memory alloc request size") ||
		code == checkViolation && strings.Contains(err.Error(), "jobs_values_check") {
		return &queue.InvalidError{Field: "Payload", Problem: "more than the server can keep in a jsonb: " + err.Error(), Err: err}
	}
	return err
}

// maxMessage is about the longest message that a server accepts, which all parameters of a statement
// are in.
const maxMessage = 1<<30 - 1<<20

// insert runs one of the statements that enqueue, unless it is too long to be sent.
func insert(ctx context.Context, db queue.DB, scan func(*sql.Rows) error, query string, params ...any) error {
	size := 0
	for _, p := range params {
		if text, ok := p.(string); ok {
			size += len(text)
		}
	}
	if size > maxMessage {
		return sqlkit.Invalid("Payload", "all jobs of the call make %d bytes: at most %d; enqueue them in several calls in one transaction", size, maxMessage)
	}
	return each(ctx, db, scan, query, params...)
}

// writePlain enqueues jobs without keys.
func (b *Backend) writePlain(ctx context.Context, db queue.DB, jobs []*queue.Job) error {
	if len(jobs) == 1 {
		return b.writeOne(ctx, db, jobs[0])
	}
	i := 0
	err := insert(ctx, db, func(rows *sql.Rows) error {
		job := jobs[i]
		i++
		job.Duplicate = false
		return rows.Scan(&job.ID)
	}, b.sql.enqueuePlain, b.columns(jobs, false)...)
	if err == nil && i != len(jobs) {
		err = fmt.Errorf("%d rows for %d jobs", i, len(jobs))
	}
	return err
}

// writeOne enqueues a job without a key.
func (b *Backend) writeOne(ctx context.Context, db queue.DB, job *queue.Job) error {
	return insert(ctx, db, func(rows *sql.Rows) error {
		var woken sql.NullString
		job.Duplicate = false
		return rows.Scan(&job.ID, &woken)
	}, b.sql.enqueueOne, b.values(job)...)
}

// write enqueues jobs. One whose key was taken by a job that ended before its id
// could be seen is written after all, by going round again.
func (b *Backend) write(ctx context.Context, db queue.DB, jobs []*queue.Job) error {
	for try := 0; len(jobs) > 0; try++ {
		if try == retryLimit {
			return errors.New("jobs with the same key come and go faster than this one can be written")
		}
		again, err := b.writeOnce(ctx, db, jobs)
		_, alone := db.(autocommit) // each round is a transaction
		switch {
		case try > 0 && alone && wantsRetry(err):
			continue // with this round: what was written before stays
		case err != nil && try > 0:
			return &laterError{err}
		case err != nil:
			return err
		}
		jobs = again
	}
	return nil
}

// writeOnce returns the jobs that were not written although no live job with
// their key was seen.
func (b *Backend) writeOnce(ctx context.Context, db queue.DB, jobs []*queue.Job) (again []*queue.Job, err error) {
	query, params := b.sql.enqueue, []any(nil)
	if len(jobs) == 1 {
		query, params = b.sql.enqueueKeyed, append(b.values(jobs[0]), jobs[0].Key)
	} else {
		params = b.columns(jobs, true)
	}
	i := 0
	err = insert(ctx, db, func(rows *sql.Rows) error {
		job := jobs[i]
		i++
		var id sql.NullInt64
		var woken sql.NullString
		if err := rows.Scan(&id, &job.Duplicate, &woken); err != nil {
			return err
		}
		if job.ID = id.Int64; !id.Valid {
			again = append(again, job)
		}
		return nil
	}, query, params...)
	if err == nil && i != len(jobs) {
		err = fmt.Errorf("%d rows for %d jobs", i, len(jobs))
	}
	return again, err
}

// values turns a job into the parameters of sql/enqueue_one.sql.
func (b *Backend) values(j *queue.Job) []any {
	params := []any{queueOf(j), j.Kind, string(payloadOf(j)), nil, nil, nil, nil, nil, !b.options.Silent}
	if j.Priority != 0 {
		params[3] = int64(j.Priority)
	}
	if j.Delay != 0 {
		params[4] = sqlkit.Microseconds(j.Delay)
	}
	if !j.ScheduledAt.IsZero() {
		params[5] = timestamp(j.ScheduledAt)
	}
	if j.MaxAttempts != 0 {
		params[6] = int64(j.MaxAttempts)
	}
	if len(j.Headers) > 0 {
		params[7] = sqlkit.EncodeHeaders(j.Headers)
	}
	return params
}

// columns turns jobs into a statement's parameters, an array for each column, the
// keys among them or not. A column in which every job has the default is nil.
func (b *Backend) columns(jobs []*queue.Job, keys bool) []any {
	params := []any{
		shared(jobs, queueOf), shared(jobs, func(j *queue.Job) string { return j.Kind }), payloads(jobs),
		column(jobs, func(j *queue.Job) bool { return j.Priority != 0 },
			func(a *array, j *queue.Job) { a.int(int64(j.Priority)) }),
		column(jobs, func(j *queue.Job) bool { return j.Delay != 0 },
			func(a *array, j *queue.Job) { a.int(sqlkit.Microseconds(j.Delay)) }),
		column(jobs, func(j *queue.Job) bool { return !j.ScheduledAt.IsZero() },
			func(a *array, j *queue.Job) { a.string(timestamp(j.ScheduledAt)) }),
		column(jobs, func(j *queue.Job) bool { return j.MaxAttempts != 0 },
			func(a *array, j *queue.Job) { a.int(int64(j.MaxAttempts)) }),
	}
	if keys {
		params = append(params, column(jobs, func(j *queue.Job) bool { return j.Key != "" },
			func(a *array, j *queue.Job) { a.string(j.Key) }))
	}
	return append(params, column(jobs, func(j *queue.Job) bool { return len(j.Headers) > 0 },
		func(a *array, j *queue.Job) { a.string(sqlkit.EncodeHeaders(j.Headers)) }), b.toNotify(jobs))
}

// payloads puts U+001E between the payloads, which no JSON text contains.
func payloads(jobs []*queue.Job) string {
	size := len(jobs)
	for _, j := range jobs {
		size += len(payloadOf(j))
	}
	text := make([]byte, 0, size)
	for i, j := range jobs {
		if i > 0 {
			text = append(text, 0x1e)
		}
		text = append(text, payloadOf(j)...)
	}
	return string(text)
}

// shared is a column that often has the same value in all jobs, and then has it once.
func shared(jobs []*queue.Job, of func(*queue.Job) string) string {
	first := of(jobs[0])
	if !slices.ContainsFunc(jobs, func(j *queue.Job) bool { return of(j) != first }) {
		jobs = jobs[:1]
	}
	var a array
	for _, j := range jobs {
		a.string(of(j))
	}
	return a.String()
}

// column is one optional column: NULL for the jobs that do not have it.
func column(jobs []*queue.Job, has func(*queue.Job) bool, put func(*array, *queue.Job)) any {
	if !slices.ContainsFunc(jobs, has) {
		return nil
	}
	var a array
	for _, j := range jobs {
		if has(j) {
			put(&a, j)
		} else {
			a.null()
		}
	}
	return a.String()
}

// toNotify lists the queues whose sleeping workers are to be woken.
func (b *Backend) toNotify(jobs []*queue.Job) any {
	if b.options.Silent {
		return nil
	}
	var names []string
	for _, j := range jobs {
		name := queueOf(j)
		if len(names) == 0 || name != names[len(names)-1] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return textArray(slices.Compact(names))
}

func queueOf(j *queue.Job) string { return cmp.Or(j.Queue, queue.DefaultQueue) }

func payloadOf(j *queue.Job) json.RawMessage {
	if j.Payload == nil {
		return json.RawMessage("null")
	}
	return j.Payload
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
