package system

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// errand is errand on PostgreSQL.
type errand struct {
	db    *sql.DB
	queue *postgres.Backend
}

var options = postgres.Options{Listen: pgxlisten.Listen}

// args is what every job carries.
type args struct {
	Number int `json:"number"`
}

var (
	plainKind = queue.NewKind[args](string(Plain))
	txKind    = queue.NewKind[args](string(InTx))
)

// PlainJob is errand's job of a number, for those who enqueue it by themselves.
func PlainJob(number int) *queue.Job { return plainKind.New(args{number}) }

func openErrand(_ context.Context, dsn string, connections int) (System, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	q, err := postgres.New(db, options)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &errand{db, q}, nil
}

func (e *errand) Install(ctx context.Context) error { return postgres.Migrate(ctx, e.db, options) }

func (e *errand) Enqueue(ctx context.Context, kind Kind, numbers ...int) error {
	jobs := make([]*queue.Job, len(numbers))
	for i, n := range numbers {
		jobs[i] = queue.Kind[args]{Name: string(kind)}.New(args{n})
	}
	return e.queue.Enqueue(ctx, nil, jobs...)
}

func (e *errand) Work(ctx context.Context, w Worker, handle Handler) error {
	watched := watched{e.queue, w.Lost}
	mux := queue.NewMux()
	plainKind.Handle(mux, func(ctx context.Context, job *queue.Job, a args) error {
		return verdict(handle(ctx, Run{Number: a.Number, Attempt: job.Attempt}))
	})
	inTx := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error { return handleInTx(ctx, job, handle) })
	tx := middleware.Tx(e.db, watched, middleware.TxOptions{SettleFirst: w.SettleFirst})
	if w.Detached {
		mux.Handle(string(InTx), queue.Chain(inTx, detached, tx))
	} else {
		mux.Handle(string(InTx), queue.Chain(inTx, tx))
	}
	return queue.Worker{
		Backend:     watched,
		Handler:     mux,
		Concurrency: w.Concurrency,
		Lease:       w.Lease,
		Poll:        w.Poll,
		Grace:       w.Grace,
		Name:        w.Name,
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}.Run(ctx)
}

// detached passes on a context that does not end, and the handler's own for a value.
func detached(next queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		return next.HandleJob(context.WithValue(context.WithoutCancel(ctx), ownKey{}, ctx), job)
	})
}

type ownKey struct{}

func handleInTx(ctx context.Context, job *queue.Job, handle Handler) error {
	a, err := txKind.Args(job)
	if err != nil {
		return err
	}
	tx, ok := middleware.TxFrom(ctx)
	if !ok {
		return errors.New("no transaction")
	}
	if own, ok := ctx.Value(ownKey{}).(context.Context); ok {
		ctx = own
	}
	return verdict(handle(ctx, Run{Number: a.Number, Attempt: job.Attempt, Exec: func(ctx context.Context, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}}))
}

// verdict is what an errand handler returns for a verb.
func verdict(v Verb) error {
	switch v {
	case Retry:
		return errors.New("to be tried again")
	case Dead:
		return queue.Discard(errors.New("given up"))
	case Snooze:
		return queue.Snooze(time.Hour)
	}
	return nil
}

// watched tells what the backend says is lost.
type watched struct {
	queue.Queue
	lost func(number, attempt int)
}

// Unwrap lets the worker find what else the backend can do.
func (w watched) Unwrap() queue.Queue { return w.Queue }

func (w watched) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) ([]*queue.Job, error) {
	lost, err := w.Queue.Extend(ctx, lease, jobs...)
	w.tell(lost)
	return lost, err
}

func (w watched) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	lost, err := w.Queue.Settle(ctx, db, outcomes...)
	w.tell(lost)
	return lost, err
}

func (w watched) tell(lost []*queue.Job) {
	if w.lost == nil {
		return
	}
	for _, job := range lost {
		if a, err := plainKind.Args(job); err == nil { // the kinds carry the same
			w.lost(a.Number, job.Attempt)
		}
	}
}

// jobsSQL reads the columns of Job; $1 is a worker or ”.
const jobsSQL = `SELECT (payload ->> 'number')::bigint, status::text, attempts, coalesce(locked_by, ''), coalesce(last_error, ''), updated_at,
	concat_ws(' | ', status, attempts, fence, locked_by, scheduled_at, updated_at, last_error)
	FROM errand.jobs WHERE $1::text = '' OR status = 'running' AND locked_by = $1::text`

func (e *errand) Jobs(ctx context.Context, worker string) (jobs []Job, err error) {
	rows, err := e.db.QueryContext(ctx, jobsSQL, worker)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var j Job
		var status queue.Status
		var updated time.Time
		if err := rows.Scan(&j.Number, (*string)(&status), &j.Attempt, &j.Worker, &j.Reason, &updated, &j.Row); err != nil {
			return nil, err
		}
		switch status {
		case queue.StatusCompleted:
			j.State, j.EndedAt = Ended, updated
		case queue.StatusDead:
			j.State, j.EndedAt = GivenUp, updated
		case queue.StatusRunning:
			j.State = Running
		default:
			j.State = Waiting
		}
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

func (e *errand) Live(ctx context.Context) (n int, err error) {
	err = e.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM errand.jobs WHERE status = 'pending') + (SELECT count(*) FROM errand.jobs WHERE status = 'running')`).Scan(&n)
	return n, err
}

func (e *errand) Close() error { return e.db.Close() }
