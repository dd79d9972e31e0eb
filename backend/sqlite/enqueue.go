package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/sqliteerr"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// maxText is about the length of the longest parameter that a statement gets. SQLite accepts a
// billion bytes. A longer batch is written by several statements.
const maxText = 256 << 20

// Enqueue implements [queue.Enqueuer]. It stores payloads as text, byte for byte. It runs one
// statement, from one of the sql/enqueue files, and several only for a batch of more than 256 MB.
//
// Outside a transaction its error is [queue.ErrUnknown] only if the disk has failed at the commit:
// once the call has the write lock, nothing interrupts it. A full disk is no such error: nothing is
// written then. On a connection of the caller's the error is also ErrUnknown if some of the jobs
// may have been written.
func (b *Backend) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	for i, job := range jobs {
		if err := job.Check(b.options.MaxPayload); err != nil {
			return fmt.Errorf("sqlite: enqueue: job %d of %d: %w", i+1, len(jobs), err)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	caller := db
	err := b.onHandle(ctx, "enqueue", db, func(ctx context.Context, db queue.DB) error {
		if err := b.writeJobs(ctx, db, jobs); err != nil {
			return err
		}
		if kind, _ := handle.Of(caller); kind == handle.Tx {
			return handle.CheckOwnKey(ctx, jobs)
		}
		return nil
	})
	switch {
	case err == nil:
		b.wakeFor(db, jobs)
	case errors.Is(err, errPartly), errors.Is(err, errCommit) && !sqliteerr.IsBusy(err) && !sqliteerr.IsFull(err):
		return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
	}
	return err
}

// writeJobs enqueues jobs with the shortest statement that can write them.
func (b *Backend) writeJobs(ctx context.Context, db queue.DB, jobs []*queue.Job) error {
	write := b.writePlain
	if slices.ContainsFunc(jobs, func(j *queue.Job) bool { return j.Key != "" || j.Cost > 1 }) {
		write = b.writeKeyed
	}
	if slices.ContainsFunc(jobs, replaces) {
		write = b.writeReplacing
	}
	for _, part := range parts(jobs, maxText) {
		if err := write(ctx, db, part); err != nil {
			return payloadTooLong(ctx, db, part, err)
		}
	}
	return nil
}

// payloadTooLong makes a [*queue.InvalidError] of an error that says that a text was too long, if
// the jobs are longer than the connection takes. It asks the connection, because a program can set
// the limit. Otherwise the long text is not the caller's, but that of a trigger, for example.
func payloadTooLong(ctx context.Context, db queue.DB, jobs []*queue.Job, err error) error {
	if !sqliteerr.IsTooLong(err) {
		return err
	}
	const others = 1000 // bytes of a job besides its texts, or more
	size := 0
	for _, j := range jobs {
		size += 2*textSize(j) + others
	}
	ask := func(*sql.Rows) error { return nil }
	if asked := sqlkit.QueryRows(ctx, db, ask, "SELECT length(zeroblob(?))", size); !sqliteerr.IsTooLong(asked) {
		return err
	}
	return &queue.InvalidError{Field: "Payload", Problem: "more than SQLite can keep in a row", Err: err}
}

// parts cuts jobs into batches whose texts have at most that many bytes before they are quoted.
// Quoting at most doubles them.
func parts(jobs []*queue.Job, most int) (parts [][]*queue.Job) {
	from, size := 0, 0
	for i, job := range jobs {
		own := textSize(job)
		if size += own; size > most && i > from {
			parts = append(parts, jobs[from:i])
			from, size = i, own
		}
	}
	return append(parts, jobs[from:])
}

// textSize returns the length of the texts of a job, or more.
func textSize(job *queue.Job) int {
	const escaped = 6 // the length of a control character in JSON
	size := len(job.Payload) + len(job.Queue) + len(job.Kind) + len(job.Key) + len(job.Group)
	for k, v := range job.Headers {
		size += escaped * (len(k) + len(v))
	}
	return size
}

// writePlain enqueues jobs without keys and costs.
func (b *Backend) writePlain(ctx context.Context, db queue.DB, jobs []*queue.Job) error {
	query, args := b.plainStatement(jobs)
	result, err := exec(ctx, db, query, args...)
	if err != nil {
		return err
	}
	last, err := result.LastInsertId()
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != int64(len(jobs)) {
		return errors.Join(err, fmt.Errorf("%d rows for %d jobs", n, len(jobs)))
	}
	for i, job := range jobs {
		job.ID, job.Duplicate, job.Replaced = last-int64(len(jobs)-1-i), false, false
	}
	return nil
}

// plainStatement returns the statement that writes jobs without keys, and its parameters.
func (b *Backend) plainStatement(jobs []*queue.Job) (query string, args []any) {
	now := now()
	first := jobs[0]
	if !slices.ContainsFunc(jobs, func(j *queue.Job) bool { return !isAlike(first, j) }) {
		query, payload := b.sql["enqueue_one"], any(payloadText(first))
		if len(jobs) > 1 {
			query, payload = b.sql["enqueue_alike"], payloads(jobs)
		}
		return query, []any{
			cmp.Or(first.Queue, queue.DefaultQueue), first.Kind, payload, priorityOf(first), dueAt(first, now),
			attemptsOf(first), headersText(first.Headers), now, sqlkit.OrNull(first.Group),
		}
	}
	return b.sql["enqueue"], []any{rows(jobs, now), now}
}

// isAlike reports whether two jobs differ in their payloads alone.
func isAlike(a, b *queue.Job) bool {
	return a.Queue == b.Queue && a.Kind == b.Kind && priorityOf(a) == priorityOf(b) && a.Delay == b.Delay &&
		a.ScheduledAt.Equal(b.ScheduledAt) && a.MaxAttempts == b.MaxAttempts && a.Group == b.Group && maps.Equal(a.Headers, b.Headers)
}

func payloads(jobs []*queue.Job) string {
	var l list
	for _, j := range jobs {
		putPayload(&l, j)
	}
	return l.String()
}

func putPayload(l *list, j *queue.Job) {
	if j.Payload == nil {
		l.string("null")
	} else {
		l.bytes(j.Payload)
	}
}

// rows returns the JSON array of the jobs. Each job is an array of its fields; key, group and cost
// are the last. The cost is left out if it is 1.
func rows(jobs []*queue.Job, now int64) string {
	var l list
	for _, j := range jobs {
		l.begin()
		l.string(cmp.Or(j.Queue, queue.DefaultQueue))
		l.string(j.Kind)
		putPayload(&l, j)
		l.int(priorityOf(j))
		l.int(dueAt(j, now))
		l.int(attemptsOf(j))
		putText(&l, headersText(j.Headers))
		putText(&l, sqlkit.OrNull(j.Key))
		putText(&l, sqlkit.OrNull(j.Group))
		if j.Cost > 1 {
			l.int(int64(j.Cost))
		}
		l.end()
	}
	return l.String()
}

func putText(l *list, text any) {
	if s, ok := text.(string); ok {
		l.string(s)
	} else {
		l.null()
	}
}

func payloadText(j *queue.Job) string {
	if j.Payload == nil {
		return "null"
	}
	return string(j.Payload)
}

func attemptsOf(j *queue.Job) int64 { return int64(cmp.Or(j.MaxAttempts, queue.DefaultMaxAttempts)) }

// dueAt returns when a job that is enqueued now is due, never early.
func dueAt(j *queue.Job, now int64) int64 {
	switch {
	case j.Delay > 0:
		return now + 1 + sqlkit.Microseconds(j.Delay) // now has been truncated
	case !j.ScheduledAt.IsZero():
		at := j.ScheduledAt.UnixMicro()
		if j.ScheduledAt.Nanosecond()%1000 != 0 {
			at++
		}
		return at
	}
	return now
}

// writeKeyed enqueues jobs, some of which have keys or costs. On a handle that is no transaction a
// key may be taken by a job that has ended before findLive looks for it. Then it tries again.
func (b *Backend) writeKeyed(ctx context.Context, db queue.DB, jobs []*queue.Job) error {
	for range sqlkit.KeyRounds {
		taken, err := b.writeFree(ctx, db, jobs)
		if err == nil && len(taken) > 0 {
			taken, err = b.findLive(ctx, db, taken)
		}
		if err != nil || len(taken) == 0 {
			return err
		}
		jobs = taken
	}
	return sqlkit.ErrKeyRounds
}

// writeFree writes the jobs whose keys are free, and returns the others.
func (b *Backend) writeFree(ctx context.Context, db queue.DB, jobs []*queue.Job) (taken []*queue.Job, err error) {
	now := now()
	ids := make([]int64, len(jobs))
	err = queryRows(ctx, db, func(r *sql.Rows) error {
		var id, place int64
		if err := r.Scan(&id, &place); err != nil {
			return err
		}
		if place < 0 || place >= int64(len(jobs)) {
			return fmt.Errorf("a row in place %d of %d jobs", place, len(jobs))
		}
		ids[place] = id
		return nil
	}, b.sql["enqueue_keyed"], rows(jobs, now), now)
	if err != nil {
		return nil, err
	}
	for i, job := range jobs {
		job.ID, job.Duplicate, job.Replaced = ids[i], ids[i] == 0, false
		if job.Duplicate {
			taken = append(taken, job)
		}
	}
	return taken, nil
}

// findLive sets the ID of each job to that of the live job that has its key. It returns the jobs
// for which it finds no live job.
func (b *Backend) findLive(ctx context.Context, db queue.DB, jobs []*queue.Job) (left []*queue.Job, err error) {
	found := make([]bool, len(jobs))
	err = queryRows(ctx, db, func(r *sql.Rows) error {
		var place, id int64
		err := r.Scan(&place, &id)
		if err == nil {
			jobs[place].ID, found[place] = id, true
		}
		return err
	}, b.sql["live"], keys(jobs))
	for i, job := range jobs {
		if !found[i] {
			left = append(left, job)
		}
	}
	return left, err
}
