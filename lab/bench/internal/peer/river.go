package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/errandhq/errand/lab/internal/peer"
)

// riverPeer is River on either of its databases.
type riverPeer[Tx any] struct {
	*peer.River[Tx]
	worker   river.Config // the configuration of its worker's client
	progress progressReader
	closeDB  func() error
}

// riverPostgres is River on Postgres.
type riverPostgres struct {
	riverPeer[pgx.Tx]
	pool *pgxpool.Pool
}

// riverArgs is the job as River's client takes it.
type riverArgs struct{ order }

func (riverArgs) Kind() string { return kind }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	handle func(int)
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.handle(job.Args.Order)
	return nil
}

// riverBest are the settings of River's own benchmark.
var riverBest = river.Config{
	FetchCooldown:     2 * time.Millisecond,
	FetchPollInterval: 20 * time.Millisecond,
	Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
}

func openRiverBest(ctx context.Context, c Config) (Peer, error) { return newRiver(ctx, c, riverBest) }

// openRiverDefault keeps River's defaults. MaxWorkers has none: it is 100, as in River's
// documentation.
func openRiverDefault(ctx context.Context, c Config) (Peer, error) {
	return newRiver(ctx, c, river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
	})
}

func newRiver(ctx context.Context, c Config, worker river.Config) (Peer, error) {
	pool, err := peer.OpenPool(ctx, c.DSN, poolSize)
	if err != nil {
		return nil, err
	}
	closeDB := func() error { pool.Close(); return nil }
	client, err := peer.NewRiver(riverpgxv5.New(pool), quiet)
	if err != nil {
		return nil, errors.Join(err, closeDB())
	}
	return &riverPostgres{riverPeer[pgx.Tx]{client, worker, readPostgres(c.DSN), closeDB}, pool}, nil
}

func (r *riverPeer[Tx]) Enqueue(ctx context.Context, first, n int) error {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = riverArgs{newOrder(first + i)}
	}
	written, err := r.InsertManyFast(ctx, jobs)
	if err == nil && written != n {
		err = fmt.Errorf("%d of %d jobs written", written, n)
	}
	return err
}

func (r *riverPeer[Tx]) EnqueueOne(ctx context.Context, number int) error {
	_, err := r.Insert(ctx, riverArgs{newOrder(number)}, nil)
	return err
}

func (r *riverPostgres) Transact(ctx context.Context, number int, enqueue bool) error {
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertBusiness, number); err != nil || !enqueue {
			return err
		}
		_, err := r.InsertTx(ctx, tx, riverArgs{newOrder(number)}, nil)
		return err
	})
}

func (r *riverPeer[Tx]) Work(ctx context.Context, handle func(int)) error {
	config := r.worker
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &riverWorker{handle: handle})
	return r.Run(ctx, config)
}

func (r *riverPeer[Tx]) Unsettled(ctx context.Context) (bool, error) {
	return r.progress.queryBool(ctx, riverQueries.unsettled)
}

func (r *riverPeer[Tx]) Census(ctx context.Context) (Census, error) {
	return r.progress.census(ctx, riverQueries.census)
}

// riverQueries are the same in Postgres and SQLite.
var riverQueries = queries{
	unsettled: `SELECT EXISTS (SELECT 1 FROM river_job WHERE state = 'available')
		OR EXISTS (SELECT 1 FROM river_job WHERE state IN ('running', 'retryable', 'scheduled', 'pending'))`,
	census: `SELECT
		count(*) FILTER (WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending')),
		count(*) FILTER (WHERE state = 'completed'),
		count(*) FILTER (WHERE state IN ('discarded', 'cancelled') OR attempt > 1)
		FROM river_job`,
}

func (r *riverPeer[Tx]) Close() error { return errors.Join(r.progress.close(), r.closeDB()) }
