package peer

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/errandhq/errand/lab/internal/peer"
)

// riverPeer is River.
type riverPeer struct {
	*peer.River[pgx.Tx]
	pool *pgxpool.Pool
}

type plainArgs struct {
	Number int `json:"number"`
}

func (plainArgs) Kind() string { return string(Plain) }

type txArgs struct {
	Number int `json:"number"`
}

func (txArgs) Kind() string { return string(InTx) }

var riverLog = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

func openRiver(ctx context.Context, dsn string, connections int) (Peer, error) {
	pool, err := peer.OpenPool(ctx, dsn, connections)
	if err != nil {
		return nil, err
	}
	client, err := peer.NewRiver(riverpgxv5.New(pool), riverLog)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &riverPeer{client, pool}, nil
}

func (p *riverPeer) Enqueue(ctx context.Context, kind Kind, numbers ...int) error {
	if kind == Poison {
		return fmt.Errorf("no kind %q", kind)
	}
	jobs := make([]river.InsertManyParams, len(numbers))
	for i, n := range numbers {
		jobs[i].Args = plainArgs{n}
		if kind == InTx {
			jobs[i].Args = txArgs{n}
		}
	}
	_, err := p.InsertManyFast(ctx, jobs)
	return err
}

func (p *riverPeer) Work(ctx context.Context, w Worker, handle Handler) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[plainArgs]) error {
		var text string
		action := handle(ctx, Run{Number: job.Args.Number, Attempt: job.Attempt, Text: &text})
		return toRiverError(action, text)
	}))
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[txArgs]) error {
		return p.workInTx(ctx, job, handle, w.Detached)
	}))
	return p.Run(ctx, river.Config{
		ID:                   w.Name,
		Workers:              workers,
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: w.Concurrency}},
		JobTimeout:           w.Lease,
		RescueStuckJobsAfter: w.Lease,
		SoftStopTimeout:      w.Grace,
	})
}

// workInTx does the work and completes the job in one transaction, as River's documentation shows.
func (p *riverPeer) workInTx(ctx context.Context, job *river.Job[txArgs], handle Handler, detached bool) error {
	txCtx := ctx
	if detached {
		txCtx = context.WithoutCancel(ctx)
	}
	return pgx.BeginFunc(txCtx, p.pool, func(tx pgx.Tx) error {
		action := handle(ctx, Run{Number: job.Args.Number, Attempt: job.Attempt, Exec: func(ctx context.Context, query string, args ...any) error {
			_, err := tx.Exec(ctx, query, args...)
			return err
		}})
		if action != Done {
			return toRiverError(action, "")
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](txCtx, tx, job)
		return err
	})
}

// toRiverError is toError for River.
func toRiverError(v Action, text string) error {
	return errorOf(v, text, river.JobCancel, river.JobSnooze)
}

// riverJobsSQL reads the columns of Job. $1 is a worker, or empty.
const riverJobsSQL = `SELECT (args ->> 'number')::bigint AS number,
	CASE WHEN state = 'completed' THEN 'done' WHEN state IN ('cancelled', 'discarded') THEN 'dead' WHEN state = 'running' THEN 'running' ELSE 'waiting' END AS state,
	attempt, coalesce(attempted_by[array_length(attempted_by, 1)], '') AS worker, coalesce(errors[array_length(errors, 1)] ->> 'error', '') AS reason,
	coalesce(finalized_at, '0001-01-01Z') AS ended, to_jsonb(river_job)::text AS row
	FROM river_job WHERE $1::text = '' OR state = 'running' AND attempted_by[array_length(attempted_by, 1)] = $1::text`

func (p *riverPeer) Jobs(ctx context.Context, worker string) ([]Job, error) {
	rows, _ := p.pool.Query(ctx, riverJobsSQL, worker) // CollectRows returns the error, too
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Job])
}

func (p *riverPeer) Live(ctx context.Context) (n int, err error) {
	err = p.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending')`).Scan(&n)
	return n, err
}

func (p *riverPeer) Close() error {
	p.pool.Close()
	return nil
}
