package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
)

// Enqueue implements [queue.Enqueuer] with sql/enqueue_one.sql or sql/enqueue_plain.sql, or, if a
// job has a key, with sql/enqueue_one_keyed.sql or sql/enqueue.sql. Jobs with groups or costs, and
// jobs that replace, have statements of their own, so that others pay nothing for them. Outside a
// transaction its error is [queue.ErrUnknown] if the server has not answered.
func (b *Backend) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	for i, job := range jobs {
		if err := job.Check(b.options.MaxPayload); err != nil {
			return fmt.Errorf("postgres: enqueue: job %d of %d: %w", i+1, len(jobs), err)
		}
	}
	kind, _ := handle.Of(db) // run returns the error
	inTx := kind == handle.Tx || kind == handle.Unknown
	left := jobs
	for round := 1; len(left) > 0; round++ {
		in := b.newInsert(left)
		in.onPool, in.partial = kind == handle.Own || kind == handle.Pool, round > 1 && !inTx
		err := b.run(ctx, "enqueue", db, func(db queue.DB) error { return in.run(ctx, db) })
		if err == nil && round == sqlkit.KeyRounds && len(in.again) > 0 {
			err = fmt.Errorf("postgres: enqueue: %w", sqlkit.ErrKeyRounds)
		}
		switch {
		case err != nil && in.partial && !errors.Is(err, queue.ErrUnknown):
			return fmt.Errorf("%w: %w", queue.ErrUnknown, err)
		case err != nil:
			return err
		}
		left = in.again
	}
	if kind != handle.Tx {
		return nil
	}
	if err := handle.CheckOwnKey(ctx, jobs); err != nil {
		return fmt.Errorf("postgres: enqueue: %w", err)
	}
	return nil
}

// insert is a statement that enqueues jobs.
type insert struct {
	jobs    []*queue.Job
	query   string
	params  []any
	scan    func(in *insert, rows *sql.Rows, job *queue.Job) error
	onPool  bool         // db is a pool's connection: run repeats the statement if nothing was sent
	partial bool         // jobs of the same call have been written, and stay
	again   []*queue.Job // jobs whose key was taken by a job that ended before its id could be seen
}

// newInsert returns the statement for these jobs: the shortest that can write them.
func (b *Backend) newInsert(jobs []*queue.Job) *insert {
	in := &insert{jobs: jobs}
	keyed := slices.ContainsFunc(jobs, func(j *queue.Job) bool { return j.Key != "" })
	grouped := slices.ContainsFunc(jobs, func(j *queue.Job) bool { return j.Group != "" || j.Cost > 1 })
	switch {
	case slices.ContainsFunc(jobs, replaces):
		in.query, in.params, in.scan = b.sql["enqueue_replacing"], b.replacingColumns(jobs), (*insert).scanReplacing
	case keyed && len(jobs) == 1 && !grouped:
		in.query, in.params, in.scan = b.sql["enqueue_one_keyed"], append(b.values(jobs[0]), jobs[0].Key), (*insert).scanKeyed
	case keyed:
		in.query, in.params, in.scan = b.sql["enqueue"], append(b.columns(jobs, true), groups(jobs), areOrdered(jobs), costs(jobs)), (*insert).scanKeyed
	case len(jobs) == 1 && grouped:
		in.query, in.params, in.scan = b.sql["enqueue_one_grouped"], append(b.values(jobs[0]), sqlkit.OrNull(jobs[0].Group), isOrdered(jobs[0]), costOf(jobs[0])), (*insert).scanOne
	case grouped:
		in.query, in.params, in.scan = b.sql["enqueue_plain_grouped"], append(b.columns(jobs, false), groups(jobs), areOrdered(jobs), costs(jobs)), (*insert).scanPlain
	case len(jobs) == 1:
		in.query, in.params, in.scan = b.sql["enqueue_one"], b.values(jobs[0]), (*insert).scanOne
	default:
		in.query, in.params, in.scan = b.sql["enqueue_plain"], b.columns(jobs, false), (*insert).scanPlain
	}
	return in
}

// run runs the statement once on db, which is a transaction or a connection.
func (in *insert) run(ctx context.Context, db queue.DB) error {
	size := in.size()
	if size > maxMessage {
		return sqlkit.Invalid("Payload", "all jobs of the call make %d bytes: at most %d; enqueue them in several calls in one transaction", size, maxMessage)
	}
	kind, err := handle.Of(db)
	if err == nil && kind == handle.Unknown {
		err = checkInTx(ctx, db)
	}
	if err != nil {
		return err
	}
	n := 0
	in.again = nil
	err = sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
		n++
		return in.scan(in, rows, in.jobs[n-1])
	}, in.query, in.params...)
	if err == nil && n != len(in.jobs) {
		err = fmt.Errorf("%d rows for %d jobs", n, len(in.jobs))
	}
	if !in.partial {
		err = payloadTooLarge(err, size)
	}
	if isInTx := kind != handle.Conn; isInTx || in.willRetry(err) {
		return err
	}
	return unlessRefused(err)
}

// willRetry reports whether withRetry runs the statement again after err. It does so only on a
// pool, if nothing has reached the server.
func (in *insert) willRetry(err error) bool { return in.onPool && isUnsent(err) }

// maxMessage is about the longest message that a server accepts. It holds all parameters of a
// statement.
const maxMessage = 1<<30 - 1<<20

// size is how many bytes the parameters take.
func (in *insert) size() (n int) {
	for _, p := range in.params {
		if text, ok := p.(string); ok {
			n += len(text)
		}
	}
	return n
}

// scanPlain reads a row of sql/enqueue_plain.sql.
func (*insert) scanPlain(rows *sql.Rows, job *queue.Job) error {
	job.Duplicate, job.Replaced = false, false
	return rows.Scan(&job.ID)
}

// scanOne reads the row of sql/enqueue_one.sql.
func (*insert) scanOne(rows *sql.Rows, job *queue.Job) error {
	var woken sql.NullString
	job.Duplicate, job.Replaced = false, false
	return rows.Scan(&job.ID, &woken)
}

// scanKeyed reads a row of sql/enqueue.sql or sql/enqueue_one_keyed.sql.
func (in *insert) scanKeyed(rows *sql.Rows, job *queue.Job) error {
	var id sql.NullInt64
	var woken sql.NullString
	job.Replaced = false
	if err := rows.Scan(&id, &job.Duplicate, &woken); err != nil {
		return err
	}
	if job.ID = id.Int64; !id.Valid {
		in.again = append(in.again, job)
	}
	return nil
}

// scanReplacing reads a row of sql/enqueue_replacing.sql.
func (*insert) scanReplacing(rows *sql.Rows, job *queue.Job) error {
	var woken sql.NullString
	return rows.Scan(&job.ID, &job.Duplicate, &job.Replaced, &woken)
}

// checkInTx asks the server whether db is in a transaction, and returns a [*queue.InvalidError] if
// it is not. The statement fails outside of a transaction and needs no right. Its lock conflicts
// with no ordinary use of that table.
func checkInTx(ctx context.Context, db queue.DB) error {
	const lockInTx, noActiveTransaction = "LOCK TABLE pg_catalog.pg_language IN ACCESS SHARE MODE", "25P01"
	_, err := db.ExecContext(ctx, lockInTx)
	if sqlState(err) == noActiveTransaction {
		return sqlkit.Invalid("DB", "%T is not in a transaction, and shows no connection: pass nil, a transaction, or a pool that has Conn", db)
	}
	return err
}
