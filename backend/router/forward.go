package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// The outbox.
//
//   - Problem: a job that is enqueued in a transaction of the home has to arrive in another
//     backend, once, whatever crashes on the way.
//   - Rule: the transaction writes it to a queue of the home. A worker sends it, and completes it
//     there when it has arrived. A crash in between sends it again, and the backend leaves out what
//     it has received before ([queue.Receiver]).
//   - Bounds: the backend remembers for [queue.TransferWindow]. A job that cannot arrive is sent
//     again for about a year, after at most longestResend; one that the backend refuses is dead in
//     the outbox. While a backend is left out (health.go), its jobs are not sent and take no slot.
//     One that hangs, or a part of it, costs the jobs of the others sendTimeout once, and then
//     longestWait at each try, for as long as it fails once in each wariness. If only a part hangs,
//     the jobs for the rest go by the calls, waryCalls at most, that do not hang.
//   - Test: TestForward, TestForwardCrashes, TestForwardKilled, TestForwardSlow, TestForwardOlder,
//     TestForwardAfterHanging, TestForwardBesideHangingPart, TestForwardRecovers.

const (
	// forwards is how many jobs of the outbox a worker sends at once.
	forwards = 100
	// shortestResend is how long after a failure a job is sent again. Each further failure doubles
	// that, up to longestResend.
	shortestResend = 100 * time.Millisecond
	longestResend  = 30 * time.Second
	// sendTimeout bounds a call whose answer never arrives.
	sendTimeout = 10 * time.Second
	// wariness is how long after a failure a sender expects another one, and longestWait how long a
	// letter then waits for its call.
	wariness    = time.Minute
	longestWait = time.Second
	// waryCalls is how many calls a sender makes at once while it expects that some hang.
	waryCalls = 8
	// sendBytes is how many bytes of payloads and headers a call has, so that it ends in time on a
	// slow network. A longer job has a call of its own.
	sendBytes = 1 << 20
	// sweepInterval is how often jobs that have arrived are deleted from the outbox.
	sweepInterval = time.Second
	maxSwept      = 1000
	// lastSweep is how long after the worker was told to stop such deletions end.
	lastSweep = 2 * time.Second
)

// Upkeep implements [queue.Upkeeper]: it forwards the jobs of the outbox until ctx ends, and
// reclaims jobs of the home. A [queue.Worker] of the router calls it. A program may call it beside
// its workers, or without any. OnDead and Observe are also called for a job of the queue [Outbox]
// that its backend refuses; [InOutbox] tells what was enqueued. OnDead may be called for ten
// reclaimed jobs at once, and for a hundred that are refused, besides the calls of the worker.
func (q *Queue) Upkeep(ctx context.Context, o queue.UpkeepOptions) error {
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
	return queue.Worker{
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
		err = f.senders[number].send(ctx, &letter{Transfer: transfer, place: out.ID, answered: make(chan error, 1)})
	} else {
		err = fmt.Errorf("router: backend %d is none of this program, whose Routes are older, or have lost it", number)
	}
	switch {
	case err == nil:
		return nil
	case isA[*queue.InvalidError](err):
		return queue.Discard(err)
	}
	return queue.RetryAfter(min(shortestResend<<min(out.Attempt-1, 10), longestResend), err)
}

// letter is a job on its way.
type letter struct {
	queue.Transfer
	place    int64      // in the outbox
	answered chan error // gets the answer
}

// sender sends letters to one backend, one batch after the other: those that have come meanwhile.
// Each letter keeps a slot of the worker from jobs for other backends. So while the sender is wary,
// because a call has failed lately, it sends each letter alone, several at once, and letters wait
// briefly.
type sender struct {
	*target
	turn   chan struct{} // full while a caller sends
	others chan struct{} // one for each further call; none while the sender is not wary

	mu      sync.Mutex
	failed  time.Time // when a call last failed; claims may work nevertheless, so health does not tell this
	began   time.Time // when the last call began
	calls   int       // under way
	waiting []*letter
}

// send sends a letter, with others that have come meanwhile, and returns the answer to it.
func (s *sender) send(ctx context.Context, l *letter) error {
	others, tooLong, ok := s.add(l)
	if !ok {
		return errNotSent
	}
	turn, isWaiting := s.turn, true
	for {
		if !isWaiting {
			turn, others = nil, nil // the letter is on its way
		}
		select { // an answer comes before the next batch
		case err := <-l.answered:
			return err
		default:
		}
		select {
		case err := <-l.answered: // by this call or by another one
			return err
		case turn <- struct{}{}:
			isWaiting = s.sendNext(ctx)
			<-turn
		case others <- struct{}{}:
			isWaiting = s.sendNext(ctx)
			<-others
		case <-tooLong:
			if s.remove(l) {
				return errNotSent
			}
		}
	}
}

// sendNext sends the next batch. It returns false if no letter waits.
func (s *sender) sendNext(ctx context.Context) bool {
	batch := s.take()
	if len(batch) == 0 {
		return false
	}
	_ = s.deliver(ctx, batch) // each letter has its answer
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	return true
}

func (s *sender) isWary() bool { return !s.failed.IsZero() && time.Since(s.failed) < wariness }

// add lets a letter wait for the next batch, for ever or, if the sender is wary, until tooLong and
// with turns beside the first. It does not if as many calls as there may be have lasted for that
// long already.
func (s *sender) add(l *letter) (others chan struct{}, tooLong <-chan time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isWary() {
		if s.calls == waryCalls && time.Since(s.began) >= longestWait {
			return nil, nil, false
		}
		others, tooLong = s.others, time.After(longestWait)
	}
	s.waiting = append(s.waiting, l)
	return others, tooLong, true
}

// remove lets a letter wait no longer. It returns false if the letter is on its way.
func (s *sender) remove(l *letter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, l)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}

// take returns the first letters that wait, in the order of the outbox: at most sendBytes, or one.
// The caller counts as a call from then on.
func (s *sender) take() (batch []*letter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.waiting, func(a, b *letter) int { return cmp.Compare(a.place, b.place) })
	n, bytes := 0, 0
	for n < len(s.waiting) && (n == 0 || !s.isWary() && bytes+sizeOf(s.waiting[n].Job) <= sendBytes) {
		bytes += sizeOf(s.waiting[n].Job)
		n++
	}
	batch, s.waiting = s.waiting[:n:n], s.waiting[n:]
	if n > 0 {
		s.calls++
		s.began = time.Now()
	}
	return batch
}

// errNotSent is the answer to letters that the backend was not asked to receive.
var errNotSent = errors.New("router: not sent, because the backend has just failed")

// deliver sends a batch, and answers each letter. If the backend refuses the batch, it sends each
// letter alone, so that one that is refused does not stop the others, until the backend fails.
func (s *sender) deliver(ctx context.Context, batch []*letter) (err error) {
	err = errNotSent
	defer func() {
		for _, l := range batch {
			l.answered <- err
		}
	}()
	if s.health.isLeftOut() {
		return err
	}
	err = s.receive(ctx, batch)
	if !isA[*queue.InvalidError](err) || len(batch) == 1 {
		return err
	}
	err = errNotSent
	for len(batch) > 0 {
		one := batch[:1]
		batch = batch[1:]
		if failure := s.deliver(ctx, one); failure != nil && !isA[*queue.InvalidError](failure) {
			return err
		}
	}
	return nil
}

// receive hands letters to the backend in one call.
func (s *sender) receive(ctx context.Context, batch []*letter) error {
	receiver, ok := queue.As[queue.Receiver](s.Queue)
	if !ok {
		return invalid("Routes", "the backend %T receives no jobs of an outbox", s.Queue)
	}
	transfers := make([]queue.Transfer, len(batch))
	for i, l := range batch {
		transfers[i] = l.Transfer
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := call(ctx, receiver, transfers)
	s.note(ctx, err)
	return err
}

// call makes an error of a panic, which would give the job the worker's Backoff.
func call(ctx context.Context, receiver queue.Receiver, transfers []queue.Transfer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = queue.RecoveredPanic(v)
		}
	}()
	_, err = receiver.Receive(ctx, transfers...)
	return err
}

// note notes what a call has come to. After the first failure it answers the letters that wait:
// their calls could hang as long. Those that come later wait only briefly.
func (s *sender) note(ctx context.Context, err error) {
	s.health.note(ctx, err)
	if err == nil || !isFailure(ctx, err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	isFirst := !s.isWary()
	s.failed = time.Now()
	if !isFirst {
		return
	}
	for _, l := range s.waiting {
		l.answered <- errNotSent
	}
	s.waiting = nil
}

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
	deleter, ok := queue.As[queue.Deleter](home)
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
				_, _ = deleter.Delete(ctx, nil, queue.Which{IDs: ids, Queue: Outbox, Status: queue.StatusCompleted})
			}
		}
	}
}
