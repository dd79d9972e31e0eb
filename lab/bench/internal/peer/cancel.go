package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// Canceller is a peer that cancels jobs that run.
type Canceller interface {
	// CancelRunning runs a worker and n jobs, one after the other at that rate a second, and cancels
	// each while it runs. It returns the times from the calls until the handlers' contexts ended.
	// lease is that of the worker; listens says whether the worker is notified.
	CancelRunning(ctx context.Context, n, rate int, lease time.Duration, listens bool) ([]time.Duration, error)
}

// runningJobs is how many jobs of CancelRunning may run at once.
const runningJobs = 100

// cancelRun is a call of CancelRunning.
type cancelRun struct {
	q     *postgres.Backend
	lease time.Duration
	n     int
	begun chan int64 // ids of jobs whose handlers have begun

	mu    sync.Mutex
	ended map[int64]chan time.Time // when their contexts have ended
}

// CancelRunning implements [Canceller].
func (e *errand) CancelRunning(ctx context.Context, n, rate int, lease time.Duration, listens bool) ([]time.Duration, error) {
	var o postgres.Options
	if listens {
		o.Listen = pgxlisten.Listen
	}
	q, err := postgres.New(e.db, o)
	if err != nil {
		return nil, err
	}
	c := &cancelRun{q: q, lease: lease, n: n, begun: make(chan int64, n), ended: make(map[int64]chan time.Time)}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	group.Go(func() error { return c.work(working) })
	time.Sleep(time.Second) // until the worker listens
	took, err := c.cancelAll(ctx, rate)
	stop()
	return took, errors.Join(err, group.Wait())
}

func (c *cancelRun) work(ctx context.Context) error {
	handler := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		ended := c.endOf(job.ID)
		c.begun <- job.ID
		<-ctx.Done()
		ended <- time.Now()
		return context.Cause(ctx)
	})
	return engine.Worker{
		Backend: c.q, Handler: handler, Concurrency: runningJobs, Lease: c.lease, Poll: 50 * time.Millisecond, Logger: quiet,
	}.Run(ctx)
}

// endOf returns the channel that gets the time at which the context of a job's handler has ended.
func (c *cancelRun) endOf(id int64) chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended[id] == nil {
		c.ended[id] = make(chan time.Time, 1)
	}
	return c.ended[id]
}

// cancelAll enqueues the jobs. It cancels each within a third of a lease after its handler has
// begun, at random, so that the heartbeats tell nothing.
func (c *cancelRun) cancelAll(ctx context.Context, rate int) ([]time.Duration, error) {
	took := make([]time.Duration, c.n)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for i := range c.n {
			if err := c.q.Enqueue(ctx, nil, &queue.Job{Kind: kind}); err != nil {
				return fmt.Errorf("job %d: %w", i, err)
			}
			time.Sleep(time.Second / time.Duration(rate))
		}
		return nil
	})
	for i := range c.n {
		var id int64
		select {
		case id = <-c.begun:
		case <-ctx.Done():
			return nil, group.Wait()
		}
		group.Go(func() (err error) {
			time.Sleep(rand.N(c.lease / 3))
			took[i], err = c.cancel(ctx, id)
			return err
		})
	}
	return took, group.Wait()
}

// cancel cancels a job, and returns how long it took until its handler's context ended.
func (c *cancelRun) cancel(ctx context.Context, id int64) (time.Duration, error) {
	called := time.Now()
	if n, err := c.q.Cancel(ctx, nil, queue.Selection{IDs: []int64{id}}); n != 1 || err != nil {
		return 0, fmt.Errorf("cancel of job %d: %d jobs, %w", id, n, err)
	}
	select {
	case at := <-c.endOf(id):
		return at.Sub(called), nil
	case <-time.After(2 * c.lease):
		return 0, fmt.Errorf("job %d: its context has not ended after two leases", id)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
