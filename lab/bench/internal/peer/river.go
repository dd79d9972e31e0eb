package peer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverPeer struct {
	worker river.Config // what its worker's client is configured with
	pool   *pgxpool.Pool
	insert *river.Client[pgx.Tx]
	looker looker
}

// riverArgs is the job as River wants it.
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

func openRiverBest(ctx context.Context, c Config) (Peer, error) {
	return newRiver(ctx, c, river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
	})
}

// openRiverDefault leaves all as it is; MaxWorkers has no default, and 100 in
// River's documentation.
func openRiverDefault(ctx context.Context, c Config) (Peer, error) {
	return newRiver(ctx, c, river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
	})
}

func newRiver(ctx context.Context, c Config, worker river.Config) (Peer, error) {
	config, err := pgxpool.ParseConfig(c.DSN)
	if err != nil {
		return nil, err
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	worker.Logger = quiet
	insert, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &riverPeer{worker: worker, pool: pool, insert: insert, looker: lookAtPostgres(c.DSN)}, nil
}

func (r *riverPeer) Install(ctx context.Context) error {
	m, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (r *riverPeer) Enqueue(ctx context.Context, first, n int) error {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = riverArgs{newOrder(first + i)}
	}
	written, err := r.insert.InsertManyFast(ctx, jobs)
	if err == nil && written != n {
		err = fmt.Errorf("%d of %d jobs written", written, n)
	}
	return err
}

func (r *riverPeer) EnqueueOne(ctx context.Context, number int) error {
	_, err := r.insert.Insert(ctx, riverArgs{newOrder(number)}, nil)
	return err
}

func (r *riverPeer) Transact(ctx context.Context, number int, enqueue bool) error {
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertBusiness, number); err != nil || !enqueue {
			return err
		}
		_, err := r.insert.InsertTx(ctx, tx, riverArgs{newOrder(number)}, nil)
		return err
	})
}

func (r *riverPeer) Work(ctx context.Context, handle func(int)) error {
	config := r.worker
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &riverWorker{handle: handle})
	client, err := river.NewClient(riverpgxv5.New(r.pool), &config)
	if err != nil {
		return err
	}
	running := context.WithoutCancel(ctx)
	if err := client.Start(running); err != nil {
		return err
	}
	<-ctx.Done()
	return client.Stop(running)
}

func (r *riverPeer) Unsettled(ctx context.Context) (bool, error) {
	return r.looker.yes(ctx, riverQuestions.unsettled)
}

func (r *riverPeer) Census(ctx context.Context) (Census, error) {
	return r.looker.census(ctx, riverQuestions.census)
}

// riverQuestions are the same in Postgres and SQLite.
var riverQuestions = questions{
	unsettled: `SELECT EXISTS (SELECT 1 FROM river_job WHERE state = 'available')
		OR EXISTS (SELECT 1 FROM river_job WHERE state IN ('running', 'retryable', 'scheduled', 'pending'))`,
	census: `SELECT
		count(*) FILTER (WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending')),
		count(*) FILTER (WHERE state = 'completed'),
		count(*) FILTER (WHERE state IN ('discarded', 'cancelled') OR attempt > 1)
		FROM river_job`,
}

func (r *riverPeer) Close() error {
	r.pool.Close()
	return r.looker.close()
}
