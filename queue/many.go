package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/internal/handling"
)

// BatchOptions says how [Kind.HandleMany] collects jobs. The zero value works.
type BatchOptions struct {
	// Size is how many jobs a call gets at most: up to 10,000. 0 means 100. The worker's
	// Concurrency counts jobs, so a call never gets more than that.
	Size int
	// Wait is how long the first job of a call waits for other jobs: up to a minute. 0 means 50 ms. A
	// worker that stops does not wait.
	Wait time.Duration
	// ByGroup makes calls with jobs of one Group only.
	ByGroup bool
}

const (
	defaultManySize = 100
	maxManySize     = 10_000
	defaultManyWait = 50 * time.Millisecond
	maxManyWait     = time.Minute
)

func (m BatchOptions) withDefaults() (BatchOptions, error) {
	m.Size, m.Wait = cmp.Or(m.Size, defaultManySize), cmp.Or(m.Wait, defaultManyWait)
	if m.Size < 1 || m.Size > maxManySize {
		return m, invalid("BatchOptions.Size", "%d: between 1 and %d, or 0 for %d", m.Size, maxManySize, defaultManySize)
	}
	if m.Wait < 0 || m.Wait > maxManyWait {
		return m, invalid("BatchOptions.Wait", "%v: between 0 (for %v) and %v", m.Wait, defaultManyWait, maxManyWait)
	}
	return m, nil
}

// HandleMany registers fn with mux as the handler of the kind's jobs, as Handle does, but calls it
// with many jobs at once: for work that is cheaper in bulk, such as one INSERT or one request. fn
// gets the jobs in the order of their IDs, and vs[i] is the payload of jobs[i]. It returns the
// answer to each job in the same order, or nil if all are done. With a different number of answers
// each of the jobs fails. So it does if fn panics.
//
// Each job keeps its lease, its attempt and its outcome, and takes one of the worker's Concurrency
// while it waits for other jobs and while fn runs. So set Concurrency to Size times the number of
// calls that should run at once. The middleware runs for each job, around the wait and the call. A
// job whose payload does not fit T is not in the call, and is answered as by Handle.
//
// ctx has the values of one job's context. It ends when the worker's Grace is over, and at the
// earliest Timeout of the jobs, which counts from before the wait. If a single job is lost or
// cancelled, ctx does not end, because the call goes on for the other jobs; what fn answers for a
// lost job is dropped. ctx ends once that is so of all jobs.
//
// HandleMany does not go together with middleware that holds a connection for each job, such as
// middleware.Tx: HandleMany panics, or [engine.Worker.Run] returns an [*InvalidError]. To settle
// the jobs in the transaction of their work, begin it in fn, call Settle in it with an outcome for
// each job, commit, and return [ErrSettled] for each.
//
// Where no Worker runs the jobs, as in queuetest and a test that calls [Mux.HandleJob], each call
// gets one job and none waits. HandleMany panics if a field of how is out of range.
func (k Kind[T]) HandleMany(mux *Mux, how BatchOptions, fn func(ctx context.Context, jobs []*Job, vs []T) []error, middleware ...Middleware) {
	how, err := how.withDefaults()
	if err != nil {
		panic(err)
	}
	c := &collector{BatchOptions: how, kind: k.Name, call: func(ctx context.Context, members []*member) []error {
		jobs, vs := make([]*Job, len(members)), make([]T, len(members))
		for i, m := range members {
			jobs[i] = m.job
			vs[i], _ = m.value.(T) // not ok for the nil of an interface
		}
		return fn(ctx, jobs, vs)
	}}
	h := Chain(HandlerFunc(func(ctx context.Context, job *Job) error {
		v, err := k.argsOrAnswer(job)
		if err != nil {
			return err
		}
		return c.handle(&member{ctx: ctx, job: job, value: v})
	}), middleware...)
	if holdsConn(h) {
		panic(errManyInTx("HandleMany", k.Name))
	}
	mux.register(k.Name, route{handler: h, timeout: k.Timeout, queue: k.Queue, isMany: true})
}

// member is a job that waits for a call of HandleMany's function, or is in one.
type member struct {
	ctx   context.Context
	job   *Job
	value any
	err   error // the answer; set before the batch is done
}

// collector collects the jobs of a kind and calls the function of HandleMany.
type collector struct {
	BatchOptions
	kind string
	call func(ctx context.Context, members []*member) []error
}

type batchKey struct {
	*collector
	group string
}

// batch is one call. The handler of its first job leads it: it waits for the others and makes the
// call. The handlers of the other jobs wait for it.
type batch struct {
	members []*member
	full    chan struct{}
	done    chan struct{}
}

// handle returns the answer to one job, after the call that the job is in.
func (c *collector) handle(m *member) error {
	all := handling.BatchesOf(m.ctx)
	if all == nil {
		c.run([]*member{m})
		return m.err
	}
	key := batchKey{collector: c}
	if c.ByGroup {
		key.group = m.job.Group
	}
	b, leads := join(all, key, m)
	if !leads {
		<-b.done
		return m.err
	}
	defer close(b.done) // also if the function calls runtime.Goexit
	timer := time.NewTimer(c.Wait)
	defer timer.Stop()
	select {
	case <-b.full:
	case <-timer.C:
	case <-m.ctx.Done():
	case <-all.Stopping:
	}
	c.run(closeBatch(all, key, b))
	return m.err
}

// join adds a job to the open batch of its key. It reports whether the job leads the batch.
func join(all *handling.Batches, key batchKey, m *member) (b *batch, leads bool) {
	all.Mu.Lock()
	defer all.Mu.Unlock()
	b, _ = all.Open[key].(*batch)
	if leads = b == nil; leads {
		b = &batch{full: make(chan struct{}), done: make(chan struct{})}
		all.Open[key] = b
	}
	b.members = append(b.members, m)
	if len(b.members) >= min(key.Size, all.Most) {
		delete(all.Open, key)
		close(b.full)
	}
	return b, leads
}

// closeBatch makes a batch take no more jobs, and returns its jobs.
func closeBatch(all *handling.Batches, key batchKey, b *batch) []*member {
	all.Mu.Lock()
	defer all.Mu.Unlock()
	if all.Open[key] == b {
		delete(all.Open, key)
	}
	return b.members
}

// run calls the function for the members whose contexts have not ended meanwhile, and sets the
// answers of all.
func (c *collector) run(members []*member) {
	var live []*member
	for _, m := range members {
		if m.ctx.Err() != nil {
			m.err = context.Cause(m.ctx)
			continue
		}
		m.err = handling.ErrGoexit
		live = append(live, m)
	}
	if len(live) == 0 {
		return
	}
	slices.SortFunc(live, func(a, b *member) int { return cmp.Compare(a.job.ID, b.job.ID) })
	ctx, cancel := callContext(live)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err := RecoveredPanic(v)
			for _, m := range live {
				m.err = err
			}
		}
	}()
	errs := c.call(ctx, live)
	var wrong error
	if errs != nil && len(errs) != len(live) {
		wrong = fmt.Errorf("queue: the function of HandleMany for kind %q has returned %d answers to %d jobs", c.kind, len(errs), len(live))
	}
	for i, m := range live {
		if m.err = wrong; wrong == nil && errs != nil {
			m.err = errs[i]
		}
	}
}

// callContext returns the context for a call with these jobs. It ends with the first of their
// contexts that ends for another reason than that its job is lost or cancelled, or with the last.
func callContext(members []*member) (ctx context.Context, end context.CancelFunc) {
	shared := &handling.Context{Context: context.WithoutCancel(members[0].ctx), IsShared: true}
	ctx, cancel := context.WithCancelCause(shared)
	ends := []func(){func() { cancel(nil) }}
	var earliest time.Time
	var left atomic.Int64
	left.Store(int64(len(members)))
	for _, m := range members {
		if d, ok := m.ctx.Deadline(); ok && (earliest.IsZero() || d.Before(earliest)) {
			earliest = d
		}
		stop := context.AfterFunc(m.ctx, func() {
			cause := context.Cause(m.ctx)
			if left.Add(-1) == 0 || !errors.Is(cause, ErrLost) && !errors.Is(cause, ErrCancelled) {
				cancel(cause)
			}
		})
		ends = append(ends, func() { stop() })
	}
	if !earliest.IsZero() {
		timed, stop := context.WithDeadline(ctx, earliest)
		ctx, ends = timed, append(ends, stop)
	}
	return ctx, func() {
		for _, end := range ends {
			end()
		}
	}
}

// errManyInTx says that HandleMany does not go together with middleware like Tx.
func errManyInTx(field, kind string) error {
	return invalid(field, "kind %q: many jobs a call, within middleware that holds a connection for each job, such as middleware.Tx: "+
		"begin one transaction in the function instead, settle the jobs in it, and return queue.ErrSettled for each", kind)
}

// CheckHandler returns the pools from which h, or a handler within it, takes a connection to hold
// while it runs a job (see [ConnHolder]). The error is an [*InvalidError] if a handler of
// [Kind.HandleMany] is within middleware that does so. A worker calls it at its start.
func CheckHandler(h Handler) (conns []*sql.DB, err error) { return connsHeld(h), checkMany(h, false) }

// checkMany returns an error if a handler within h is one of HandleMany, and one around that holds
// a connection.
func checkMany(h Handler, isHeld bool) error {
	_, isHolder := h.(ConnHolder)
	isHeld = isHeld || isHolder
	if c, ok := h.(chain); ok {
		isHeld = isHeld || len(c.holders) > 0
	}
	switch u := h.(type) {
	case *Mux:
		return u.checkMany(isHeld)
	case interface{ Unwrap() Handler }:
		return checkMany(u.Unwrap(), isHeld)
	}
	return nil
}

// holdsConn reports whether a handler that Chain has made holds a connection.
func holdsConn(h Handler) bool {
	c, ok := h.(chain)
	return ok && len(c.holders) > 0
}
