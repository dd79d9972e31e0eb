package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// A claim whose answer is lost, because the network swallowed it or it came too late, may have taken jobs
// that nobody holds. Before its next claim the worker gives them back, without costing an attempt: they bear the
// worker's name, and a fence that was drawn after the lost claim was sent and that no claim was answered with. The
// server may commit a lost claim late, so this is repeated until its lease is over.

// repayEvery is how often it is repeated.
const repayEvery = time.Second

// sendTime is how long a statement may take to reach the server.
const sendTime = 10 * time.Second

// giveBackTimeout bounds giveBack, whose caller's context may have ended.
const giveBackTimeout = 2 * time.Second

// claims is what a Backend knows of its workers' claims.
type claims struct {
	mu    sync.Mutex
	fence int64            // the highest that a claim was answered with
	lost  map[string]*lost // by worker
	owed  []*queue.Job     // claimed and not handed out, which could not be released yet
}

// lost is what is known of a worker's claims that were not answered.
type lost struct {
	sent  time.Time // when the first was
	until time.Time // when the lease of the last is over
	after int64     // a fence that was drawn before the first was sent
	known []int64   // the fences of claims that were answered since
	tried time.Time
}

// sent notes that a claim is about to be sent. It returns the highest fence known so far.
func (c *claims) sent() (after int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fence
}

// answered notes the fence of a claim.
func (c *claims) answered(worker string, fence int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fence = max(c.fence, fence)
	if l := c.lost[worker]; l != nil {
		l.known = append(l.known, fence)
	}
}

// unanswered notes that a claim, sent then, was not answered.
func (c *claims) unanswered(req queue.ClaimRequest, sent time.Time, after int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = make(map[string]*lost)
	}
	l := c.lost[req.Worker]
	if l == nil {
		l = &lost{sent: sent, after: after}
		c.lost[req.Worker] = l
	}
	l.until = time.Now().Add(req.Lease)
}

// due returns what is to be given back now for the worker: jobs, and a copy of what is known of its lost
// claims, or nil.
func (c *claims) due(worker string) (owed []*queue.Job, l *lost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	owed, c.owed = c.owed, nil
	if l := c.lost[worker]; l != nil && time.Since(l.tried) >= repayEvery {
		l.tried = time.Now()
		copied := *l
		return owed, &copied
	}
	return owed, nil
}

// repaid forgets the worker's lost claims if their leases were over at that time.
func (c *claims) repaid(worker string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lost[worker]; l != nil && at.After(l.until) {
		delete(c.lost, worker)
	}
}

// onOneConn runs f on a connection of its own where db is a pool, and again on another one where the
// connection was broken. On the pool itself database/sql would do that without a word, and so would hide that f was
// sent and not answered.
func onOneConn(ctx context.Context, db queue.DB, f func(queue.DB) error) error {
	pool, ok := db.(*sql.DB)
	if !ok {
		return f(db)
	}
	for try := 1; ; try++ {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return err
		}
		err = f(conn)
		_ = conn.Close() // it is back in the pool, or was broken
		if !errors.Is(err, driver.ErrBadConn) && !unsent(err) || try == retryLimit || ctx.Err() != nil {
			return err
		}
	}
}

// repay gives back what the worker holds without knowing, with sql/give_back.sql. Almost always there
// is nothing to do.
func (b *Backend) repay(ctx context.Context, worker string) error {
	owed, l := b.claims.due(worker)
	b.giveBack(ctx, owed)
	if l == nil {
		return nil
	}
	begun := time.Now()
	var known array
	for _, fence := range l.known {
		known.int(fence)
	}
	err := b.on(ctx, "claim", nil, func(db queue.DB) error {
		_, err := queryIDs(ctx, db, b.sql.giveBack, worker, l.after, known.String(), sqlkit.Microseconds(begun.Sub(l.sent)+sendTime), !b.options.Silent)
		return err
	})
	if err == nil {
		b.claims.repaid(worker, begun)
	}
	return err
}

// giveBack releases jobs that have been claimed and are not handed out, or leaves it to a later claim.
func (b *Backend) giveBack(ctx context.Context, jobs []*queue.Job) {
	if len(jobs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	outcomes := make([]queue.Outcome, len(jobs))
	for i, job := range jobs {
		job.Payload, job.Headers = nil, nil
		outcomes[i] = queue.Outcome{Job: job, Action: queue.Release}
	}
	if _, err := b.Settle(ctx, nil, outcomes...); err != nil {
		b.claims.mu.Lock()
		defer b.claims.mu.Unlock()
		b.claims.owed = append(b.claims.owed, jobs...)
	}
}
