package peer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"
	"golang.org/x/sync/errgroup"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgres/pqlisten"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/lab/internal/peer"
	"github.com/errandhq/errand/queue"
)

type errand struct {
	config    Config
	db        *sql.DB
	queue     queue.Queue
	migrate   func(context.Context) error
	progress  progressReader
	questions queries
}

// queries are what a progressReader asks.
type queries struct{ unsettled, census string }

var orders = queue.NewKind[order](kind)

func openErrand(_ context.Context, c Config) (Peer, error) {
	return newErrand(c, "pgx", postgres.Options{Listen: pgxlisten.Listen})
}

func openErrandPQ(_ context.Context, c Config) (Peer, error) {
	return newErrand(c, "postgres", postgres.Options{Listen: pqlisten.New(c.DSN)})
}

func openErrandDelete(_ context.Context, c Config) (Peer, error) {
	return newErrand(c, "pgx", postgres.Options{Listen: pgxlisten.Listen, Retention: queue.Retention{Completed: -1}})
}

func newErrand(c Config, driver string, o postgres.Options) (Peer, error) {
	db, err := peer.OpenDB(driver, c.DSN, poolSize)
	if err != nil {
		return nil, err
	}
	q, err := postgres.New(db, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	migrate := func(ctx context.Context) error { return postgres.Migrate(ctx, db, o) }
	return &errand{config: c, db: db, queue: q, migrate: migrate, progress: readPostgres(c.DSN), questions: errandInPostgres}, nil
}

func (e *errand) Install(ctx context.Context) error { return e.migrate(ctx) }

func (e *errand) Enqueue(ctx context.Context, first, n int) error {
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = orders.New(newOrder(first + i))
	}
	return e.queue.Enqueue(ctx, nil, jobs...)
}

func (e *errand) EnqueueOne(ctx context.Context, number int) error {
	return e.queue.Enqueue(ctx, nil, orders.New(newOrder(number)))
}

func (e *errand) Work(ctx context.Context, handle func(int)) error {
	mux := queue.NewMux()
	orders.Handle(mux, func(_ context.Context, _ *queue.Job, o order) error {
		handle(o.Order)
		return nil
	})
	w := engine.Worker{
		Backend:     e.consumer(),
		Handler:     mux,
		Concurrency: e.config.Concurrency,
		Logger:      quiet,
	}
	if e.config.Workers < 2 {
		return w.Run(ctx)
	}
	workers, ctx := errgroup.WithContext(ctx)
	for range e.config.Workers {
		workers.Go(func() error { return w.Run(ctx) })
	}
	return workers.Wait()
}

// Take implements [Taker].
func (e *errand) Take(ctx context.Context) (bool, error) {
	jobs, err := e.queue.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "bench"})
	if err != nil || len(jobs) == 0 {
		return false, err
	}
	lost, err := e.queue.Settle(ctx, nil, queue.Outcome{Job: jobs[0]})
	if err == nil && len(lost) > 0 {
		err = errors.New("the job is lost")
	}
	return true, err
}

// consumer returns the backend. It times the claims if the Config asks for that.
func (e *errand) consumer() queue.Consumer {
	if e.config.OnClaim == nil {
		return e.queue
	}
	return timedClaims{e.queue, e.config.OnClaim}
}

// timedClaims reports how long each claim took.
type timedClaims struct {
	queue.Queue
	told func(time.Duration)
}

// Unwrap lets the worker find the backend's capabilities.
func (t timedClaims) Unwrap() queue.Queue { return t.Queue }

func (t timedClaims) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	from := time.Now()
	jobs, err := t.Queue.Claim(ctx, req)
	t.told(time.Since(from))
	return jobs, err
}

func (e *errand) Transact(ctx context.Context, number int, enqueue bool) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, insertBusiness, number); err != nil {
		return err
	}
	if enqueue {
		if err := e.queue.Enqueue(ctx, tx, orders.New(newOrder(number))); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (e *errand) EnqueueAndHold(ctx context.Context, number int, hold time.Duration) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := e.queue.Enqueue(ctx, tx, orders.New(newOrder(number))); err != nil {
		return err
	}
	time.Sleep(hold)
	return tx.Commit()
}

// The queries of errand's tables. The floors use the same tables.
var (
	errandInPostgres = errandQueries("errand.jobs")
	errandInSQLite   = errandQueries("errand_jobs")
)

func errandQueries(table string) queries {
	return queries{
		unsettled: `SELECT EXISTS (SELECT 1 FROM ` + table + ` WHERE status = 'pending')
			OR EXISTS (SELECT 1 FROM ` + table + ` WHERE status = 'running')`,
		census: `SELECT
			count(*) FILTER (WHERE status IN ('pending', 'running')),
			count(*) FILTER (WHERE status = 'completed'),
			count(*) FILTER (WHERE status IN ('failed', 'dead') OR attempts > 1)
			FROM ` + table,
	}
}

func (e *errand) Unsettled(ctx context.Context) (bool, error) {
	return e.progress.queryBool(ctx, e.questions.unsettled)
}

func (e *errand) Census(ctx context.Context) (Census, error) {
	return e.progress.census(ctx, e.questions.census)
}

func (e *errand) Close() error {
	if err := errors.Join(e.progress.close(), e.db.Close()); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// quiet logs only errors, to standard error, so that a measurement that goes wrong shows.
var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
