package migrating

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertest"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// The calls that docs/migrating.md sets side by side, River's and errand's: they are
// compiled and not run.
var _ = []any{riverCalls, errandCalls, errandWorker}

type welcomeArgs struct {
	UserID int64 `json:"user_id"`
}

func (welcomeArgs) Kind() string { return "welcome" }

type welcomeWorker struct {
	river.WorkerDefaults[welcomeArgs]
}

func (*welcomeWorker) NextRetry(*river.Job[welcomeArgs]) time.Time   { return time.Now() }
func (*welcomeWorker) Timeout(*river.Job[welcomeArgs]) time.Duration { return time.Second }
func (*welcomeWorker) Work(ctx context.Context, job *river.Job[welcomeArgs]) error {
	_, _ = river.JobCompleteTx[*riverpgxv5.Driver](ctx, pgx.Tx(nil), job)
	_ = river.JobCancel(nil)
	return river.JobSnooze(time.Hour)
}

func riverCalls(ctx context.Context, t *testing.T, pool *pgxpool.Pool, tx pgx.Tx, params []river.InsertManyParams) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &welcomeWorker{})
	driver := riverpgxv5.New(pool)
	client, _ := river.NewClient(driver, &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{"default": {MaxWorkers: 1}}, RetryPolicy: onceMore{}, SoftStopTimeout: time.Second,
		JobTimeout: time.Minute, RescueStuckJobsAfter: time.Hour, FetchOnlyKnownKinds: true, PeriodicJobs: []*river.PeriodicJob{},
	})
	_, _ = client.InsertTx(ctx, tx, welcomeArgs{}, nil)
	_, _ = client.InsertTx(ctx, tx, welcomeArgs{}, &river.InsertOpts{
		ScheduledAt: time.Now(), Priority: 2, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true},
	})
	_, _ = client.InsertManyTx(ctx, tx, params)
	_, _ = client.JobCancel(ctx, 42)
	_, _ = client.JobRetry(ctx, 42)
	_ = client.Start(ctx)
	_ = client.Stop(ctx)
	_ = rivertest.RequireInserted(ctx, t, driver, welcomeArgs{}, nil)
	_ = rivertest.NewWorker(t, driver, &river.Config{}, &welcomeWorker{})
}

func errandCalls(ctx context.Context, q *postgres.Backend, tx *sql.Tx, native pgx.Tx, jobs []*queue.Job) {
	welcome := queue.NewKind[welcomeArgs]("welcome")
	job := welcome.New(welcomeArgs{UserID: 42})
	job.ScheduledAt, job.Delay = time.Now(), time.Hour
	job.Key, job.Priority, job.MaxAttempts = "welcome-42", 1, 3
	_ = q.Enqueue(ctx, tx, job)
	_ = q.Enqueue(ctx, tx, jobs...)
	_ = q.Enqueue(ctx, pgxadapter.Tx(native), job)
	_, _ = q.Settle(ctx, tx, queue.Outcome{Job: job})
	_, _ = q.Redrive(ctx, nil, queue.Selection{IDs: []int64{42}})
	_ = []error{queue.RetryAfter(time.Hour, nil), queue.Discard(nil), queue.Snooze(time.Hour), queue.ErrSettled}
}

func errandWorker(ctx context.Context, q *postgres.Backend, pool *pgxpool.Pool) {
	_ = stdlib.OpenDBFromPool(pool)
	mux := queue.NewMux()
	queue.NewKind[welcomeArgs]("welcome").Handle(mux, func(context.Context, *queue.Job, welcomeArgs) error { return nil })
	_ = engine.Worker{Backend: q, Handler: mux, Grace: time.Second}.Run(ctx)
	_, _ = queuetest.New(queuetest.Options{}).Drain(ctx, mux)
}
