package peer

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// errand is errand on one of its backends.
type errand struct {
	db    *sql.DB
	queue queue.Queue
	table
}

// table is what differs between the backends: how to make the tables, and how to read the jobs.
type table struct {
	install func(ctx context.Context) error
	keeping func(completed time.Duration) (queue.Queue, error) // returns the queue with that retention
	jobs    string                                             // reads the columns of Job, EndedAt in microseconds since 1970; the parameter is a worker, or empty
	live    string                                             // counts the jobs that have not ended
}

// args is the payload of every job.
type args struct {
	Number int `json:"number"`
}

var (
	plainKind = queue.NewKind[args](string(Plain))
	txKind    = queue.NewKind[args](string(InTx))
	poison    = queue.NewKind[args](string(Poison))
)

func (e *errand) Install(ctx context.Context) error { return e.install(ctx) }

// PlainJob returns errand's job of a number, for processes that enqueue it themselves.
func PlainJob(number int) *queue.Job { return plainKind.New(args{number}) }

// NumberOf returns the number of a job.
func NumberOf(job *queue.Job) (int, error) {
	a, err := plainKind.Args(job) // all kinds have the same payload
	return a.Number, err
}

func (e *errand) Enqueue(ctx context.Context, kind Kind, numbers ...int) error {
	return e.queue.Enqueue(ctx, nil, newJobs(kind, numbers)...)
}

func newJobs(kind Kind, numbers []int) []*queue.Job {
	jobs := make([]*queue.Job, len(numbers))
	for i, n := range numbers {
		jobs[i] = queue.Kind[args]{Name: string(kind)}.New(args{n})
		if kind == Poison {
			jobs[i].MaxAttempts = PoisonAttempts(n)
		}
	}
	return jobs
}

func (e *errand) Work(ctx context.Context, w Worker, handle Handler) error {
	q, err := e.keeping(w.Keep)
	if err != nil {
		return err
	}
	e.db.SetConnMaxIdleTime(w.Idle)
	observed := observed{q, w, new(sync.Map)}
	mux := observed.mux(handle)
	poison.Handle(mux, func(ctx context.Context, job *queue.Job, a args) error {
		return toError(handle(ctx, Run{Number: a.Number, Attempt: job.Attempt, Poison: true}), "")
	})
	inTx := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error { return handleInTx(ctx, job, handle) })
	tx := middleware.Tx(e.db, observed, middleware.TxOptions{SettleFirst: w.SettleFirst})
	if w.Detached {
		mux.Handle(string(InTx), queue.Chain(inTx, detached, tx))
	} else {
		mux.Handle(string(InTx), queue.Chain(inTx, tx))
	}
	return observed.run(ctx, mux)
}

// mux returns a Mux that handles Plain jobs.
func (w observed) mux(handle Handler) *queue.Mux {
	mux := queue.NewMux()
	plainKind.Handle(mux, func(ctx context.Context, job *queue.Job, a args) error {
		var text string
		action := handle(ctx, Run{Number: a.Number, Attempt: job.Attempt, Text: &text, Claimed: w.claimed(job)})
		return toErrorWithDelay(action, text, w.worker)
	})
	return mux
}

// run is errand's worker.
func (w observed) run(ctx context.Context, mux *queue.Mux) error {
	return engine.Worker{
		Backend:     w,
		Handler:     mux,
		Concurrency: w.worker.Concurrency,
		Lease:       w.worker.Lease,
		Poll:        w.worker.Poll,
		Grace:       w.worker.Grace,
		Name:        w.worker.Name,
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}.Run(ctx)
}

// detached passes on a context that does not end, with the handler's own as a value.
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
	action := handle(ctx, Run{Number: a.Number, Attempt: job.Attempt, Exec: func(ctx context.Context, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}})
	return toError(action, "")
}

// toError returns what an errand handler returns for an action. text is the text of the error; ""
// means a standard text.
func toError(v Action, text string) error { return errorOf(v, text, queue.Discard, queue.Snooze) }

// toErrorWithDelay is toError. For Retry it adds the worker's RetryAfter, if that is set.
func toErrorWithDelay(v Action, text string, w Worker) error {
	err := toError(v, text)
	if v == Retry && w.RetryAfter > 0 {
		return queue.RetryAfter(w.RetryAfter, err)
	}
	return err
}

// observed reports the jobs that the backend says are lost, and how long its claims take.
type observed struct {
	queue.Queue
	worker Worker
	begun  *sync.Map // when the claims of jobs with groups have begun, by job
}

// claimed returns when the claim of a job with a group began.
func (w observed) claimed(job *queue.Job) time.Time {
	at, _ := w.begun.LoadAndDelete(job.ID)
	begun, _ := at.(time.Time)
	return begun
}

// Unwrap lets the worker find the backend's capabilities.
func (w observed) Unwrap() queue.Queue { return w.Queue }

func (w observed) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	begun := time.Now()
	jobs, err := w.Queue.Claim(ctx, req)
	if w.worker.Claimed != nil && len(jobs) > 0 {
		w.worker.Claimed(time.Since(begun), len(jobs))
	}
	for _, job := range jobs {
		if job.Group != "" {
			w.begun.Store(job.ID, begun)
		}
	}
	return jobs, err
}

func (w observed) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	lost, asked, err = w.Queue.Extend(ctx, lease, jobs...)
	w.reportLost(lost)
	return lost, asked, err
}

func (w observed) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	lost, err := w.Queue.Settle(ctx, db, outcomes...)
	w.reportLost(lost)
	return lost, err
}

func (w observed) reportLost(lost []*queue.Job) {
	if w.worker.Lost == nil {
		return
	}
	for _, job := range lost {
		if number, err := NumberOf(job); err == nil {
			w.worker.Lost(number, job.Attempt)
		}
	}
}

func (e *errand) Jobs(ctx context.Context, worker string) (jobs []Job, err error) {
	rows, err := e.db.QueryContext(ctx, e.jobs, worker)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var j Job
		var status queue.Status
		var updated int64
		if err := rows.Scan(&j.Number, (*string)(&status), &j.Attempt, &j.Worker, &j.Reason, &updated, &j.Row); err != nil {
			return nil, err
		}
		if j.State = stateOf(status); !j.State.Open() {
			j.EndedAt = time.UnixMicro(updated)
		}
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

// stateOf returns the state of a job with that status.
func stateOf(s queue.Status) State {
	switch s {
	case queue.StatusCompleted:
		return Ended
	case queue.StatusDead:
		return GivenUp
	case queue.StatusRunning:
		return Running
	}
	return Waiting
}

func (e *errand) Live(ctx context.Context) (n int, err error) {
	err = e.db.QueryRowContext(ctx, e.live).Scan(&n)
	return n, err
}

func (e *errand) Close() error { return e.db.Close() }
