package network

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

var pools = scenario.Scenario{
	Number: 28,
	Name:   "pools",
	What:   "workers that listen have a pool with too few connections for all that they do",
	Run:    tightenPools,
}

// poolCase is a process whose workers share one pool.
type poolCase struct {
	what        string
	connections int
	workers     int
	concurrency int
	tx          bool // each handler opens a transaction
	takes       time.Duration
	jobs        int
}

// leaseInPool is shorter than the handlers of the second case take, so that leases have to be
// extended.
const leaseInPool = 2 * time.Second

var poolCases = []poolCase{
	{what: "two workers, a pool of two", connections: 2, workers: 2, concurrency: 10, takes: 5 * time.Millisecond, jobs: 100},
	{what: "transactions in all slots, a pool as large as Concurrency", connections: 10, workers: 1, concurrency: 10, tx: true, takes: 3 * time.Second, jobs: 20},
}

func tightenPools(ctx context.Context, h *harness.Harness) error {
	for i, c := range poolCases {
		if err := c.try(ctx, h, 1+i*10_000); err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
	}
	crew, err := h.Crew(1, child.Work{Worker: peer.Worker{Concurrency: 10, Lease: leaseInPool}}) // runs the jobs that a refusal has left
	if err != nil {
		return err
	}
	_, _, err = crew.Finish(ctx)
	return err
}

// try demands that all jobs run, or that each worker says at once why they cannot.
func (c poolCase) try(ctx context.Context, h *harness.Harness, first int) (err error) {
	numbers := make([]int, c.jobs)
	for i := range numbers {
		numbers[i] = first + i
	}
	if err := h.Enqueue(ctx, peer.Plain, numbers...); err != nil {
		return err
	}
	record, err := ledger.Open(ctx, h.LedgerDSN, fmt.Sprint("pool", first))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, record.Close()) }()
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, err := c.start(running, h.DSN("application_name", "pool"), record)
	if err != nil {
		return err
	}
	var refused []string
	left := c.jobs
	for deadline := time.Now().Add(20 * time.Second); left > 0 && len(refused) < c.workers && time.Now().Before(deadline); {
		select {
		case err := <-ended:
			refused = append(refused, fmt.Sprint(err))
		case <-time.After(50 * time.Millisecond):
		}
		if left, err = h.Count(ctx, `SELECT count(*) FROM errand.jobs WHERE status IN ('pending', 'running') AND (payload ->> 'number')::integer >= $1`, first); err != nil {
			return err
		}
	}
	c.check(h, left, refused)
	cancel()
	for range c.workers - len(refused) {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("a worker: %w", err)
			}
		case <-time.After(time.Minute):
			return errors.New("a worker has not ended within a minute")
		}
	}
	return nil
}

func (c poolCase) check(h *harness.Harness, left int, refused []string) {
	got := fmt.Sprintf("%d of %d jobs left", left, c.jobs)
	clear := len(refused) == c.workers
	for _, why := range refused {
		clear = clear && strings.Contains(why, "pool")
	}
	if len(refused) > 0 {
		got = "refused: " + harness.FirstFew(refused)
	}
	h.Row.Check(left == 0 || clear, c.what+": all jobs run, or Run refuses and names the pool", "%s", got)
}

// start starts the workers. It returns a channel with the result of each worker's Run.
func (c poolCase) start(ctx context.Context, dsn string, record *ledger.Writer) (<-chan error, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Minute, func() { db.Close() }) })
	db.SetMaxOpenConns(c.connections)
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	if err != nil {
		return nil, err
	}
	mux := queue.NewMux()
	var handler queue.Handler = queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error { return c.handle(ctx, job, record) })
	if c.tx {
		handler = queue.Chain(handler, middleware.Tx(db, q, middleware.TxOptions{}))
	}
	mux.Handle(string(peer.Plain), handler)
	ended := make(chan error, c.workers)
	for range c.workers {
		go func() {
			ended <- engine.Worker{Backend: q, Handler: mux, Concurrency: c.concurrency, Lease: leaseInPool,
				Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}.Run(ctx)
		}()
	}
	return ended, nil
}

func (c poolCase) handle(ctx context.Context, job *queue.Job, record *ledger.Writer) error {
	number, err := peer.NumberOf(job)
	if err != nil {
		return err
	}
	if err := record.Started(number, job.Attempt); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(c.takes):
	}
	return record.Effect(number, job.Attempt)
}
