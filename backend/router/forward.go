package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// The outbox.
//
//   - Problem: a job that is enqueued in a transaction of the home has to arrive in another
//     backend, once, whatever crashes on the way.
//   - Rule: the transaction writes it to a queue of the home. A worker sends it, and completes it
//     there when it has arrived. A crash in between sends it again, and the backend leaves out what
//     it has received before ([driver.Receiver]).
//   - Bounds: the backend remembers for [driver.TransferWindow]. A job that cannot arrive is sent
//     again for about a year, after at most longestResend; one that the backend refuses is dead in
//     the outbox. While a backend is left out (health.go), its jobs are not sent and take no slot.
//     One that hangs, or a part of it, costs the jobs of the others sendTimeout once, and then
//     longestWait at each try, for as long as it hangs once in each wariness. If only a part hangs,
//     the jobs for the rest go by the calls, waryCalls at most, that do not hang. A job for which
//     its backend fails at once does not delay the others.
//   - Test: TestForward, TestForwardCrashes, TestForwardKilled, TestForwardSlow, TestForwardOlder,
//     TestForwardAfterHanging, TestForwardBesideHangingPart, TestForwardRecovers,
//     TestForwardBesideBadRows, TestForwardBesideBadRowsAfterHanging, TestForwardDuringOutage.

const (
	// forwards is how many jobs of the outbox a worker sends at once.
	forwards = 100
	// shortestResend is how long after a failure a job is sent again. Each further failure doubles
	// that, up to longestResend.
	shortestResend = 100 * time.Millisecond
	longestResend  = 30 * time.Second
	// sweepInterval is how often jobs that have arrived are deleted from the outbox.
	sweepInterval = time.Second
	maxSwept      = 1000
	// lastSweep is how long after the worker was told to stop such deletions end.
	lastSweep = 2 * time.Second
)

// Upkeep implements [driver.Upkeeper]: it forwards the jobs of the outbox until ctx ends, and
// reclaims jobs of the home. An [engine.Worker] of the router calls it. A program may call it
// beside its workers, or without any. OnDead and Observe are also called for a job of the queue
// [Outbox] that its backend refuses; [InOutbox] tells what was enqueued. OnDead may be called for
// ten reclaimed jobs at once, and for a hundred that are refused, besides the calls of the worker.
func (q *Queue) Upkeep(ctx context.Context, o driver.UpkeepOptions) error {
	if len(q.targets) == 1 {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	deleting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	context.AfterFunc(ctx, func() { time.AfterFunc(lastSweep, end) })
	var arrived arrivals
	var sweeping sync.WaitGroup
	forwarded := make(chan struct{}) // closed when no more jobs arrive
	sweeping.Go(func() { arrived.sweep(deleting, forwarded, q.home.Queue) })
	defer sweeping.Wait()
	defer close(forwarded)
	defer stop()
	return engine.Worker{
		Backend: q.home.Queue, Queues: []string{Outbox}, Handler: q.forward, Concurrency: forwards,
		Logger: cmp.Or(o.Logger, slog.Default()).With("queue_of_worker", Outbox), Grace: o.Grace, Halt: o.Halt, OnDead: o.OnDead,
		Observe: func(e queue.Event) {
			arrived.note(e)
			if o.Observe != nil && (e.Job.Queue != Outbox || e.Type == queue.EventDead) {
				o.Observe(e)
			}
		},
	}.Run(ctx)
}

// forwarder sends the jobs of the outbox.
type forwarder struct {
	router  *Queue
	senders []*sender // by the number of the backend
}

func newForwarder(q *Queue) *forwarder {
	f := &forwarder{router: q}
	for _, t := range q.targets {
		f.senders = append(f.senders, &sender{target: t, turn: make(chan struct{}, 1), others: make(chan struct{}, waryCalls-1)})
	}
	return f
}

// HandleJob implements [queue.Handler] for a job of the outbox.
func (f *forwarder) HandleJob(ctx context.Context, out *queue.Job) error {
	transfer, number, err := transferOf(out)
	if err != nil { // a router of a newer release may be able to read it
		return queue.RetryAfter(queue.Backoff(out.Attempt), err)
	}
	if 0 < number && number < int64(len(f.senders)) {
		s := f.senders[number]
		err = s.send(ctx, &letter{Transfer: transfer, place: out.ID, attempt: out.Attempt, answered: make(chan error, 1)})
		if errors.Is(err, errNotSent) {
			return queue.RetryAfter(jitter(s.pause(out.Attempt)), err)
		}
	} else {
		err = fmt.Errorf("router: backend %d is none of this program, whose Routes are older, or have lost it", number)
	}
	switch {
	case err == nil:
		return nil
	case isA[*queue.InvalidError](err):
		return queue.Discard(err)
	}
	return queue.RetryAfter(jitter(resendDelay(out.Attempt)), err)
}

// resendDelay returns how long after its nth failure a letter is sent again.
func resendDelay(n int) time.Duration { return min(shortestResend<<min(n-1, 10), longestResend) }

// jitter subtracts up to half of a delay at random. Without it the letters that are sent again
// would come in the same order each time: if the first one fails each time, and its backend is then
// left out, the others would never be sent.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/2) }

// arrivals are the jobs of the outbox that have arrived. They are deleted there, because the home
// would keep completed jobs for days. What a crash leaves is pruned after that time.
type arrivals struct {
	mu  sync.Mutex
	ids []int64
}

func (a *arrivals) note(e queue.Event) {
	if e.Type == queue.EventCompleted {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ids = append(a.ids, e.Job.ID)
	}
}

// take returns at most maxSwept IDs.
func (a *arrivals) take() (ids []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.ids), maxSwept)
	ids, a.ids = a.ids[:n:n], a.ids[n:]
	return ids
}

// sweep deletes jobs that have arrived, if the home can: each sweepInterval, and those that are
// left when forwarding has ended.
func (a *arrivals) sweep(ctx context.Context, forwarded <-chan struct{}, home queue.Queue) {
	editor, ok := driver.As[driver.Editor](home)
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for isLast := false; !isLast; {
		select {
		case <-forwarded:
			isLast = true
		case <-ticker.C:
		}
		for ids := a.take(); len(ids) > 0; ids = a.take() {
			if ok {
				_, _ = editor.Delete(ctx, nil, queue.Selection{IDs: ids, Queue: Outbox, Status: queue.StatusCompleted})
			}
		}
	}
}
