package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// sendTimeout bounds a call whose answer never arrives.
	sendTimeout = 10 * time.Second
	// A call that fails after longestWait has hung. wariness is how long after that a sender expects
	// another one to hang, and longestWait how long a letter then waits for its call.
	wariness    = time.Minute
	longestWait = time.Second
	// waryCalls is how many calls a sender makes at once while it expects that some hang.
	waryCalls = 8
	// failuresInRow is how many letters, each alone, fail one after the other until the backend counts
	// as failed.
	failuresInRow = 8
	// sendBytes is how many bytes of payloads and headers a call has, so that it ends in time on a
	// slow network. A longer job has a call of its own.
	sendBytes = 1 << 20
)

// letter is a job on its way.
type letter struct {
	driver.Transfer
	place    int64      // in the outbox
	attempt  int        // of the job of the outbox
	answered chan error // gets the answer
}

// sender sends letters to one backend, one batch after the other: those that have come meanwhile.
// Each letter keeps a slot of the worker from jobs for other backends. So while the sender is wary,
// because a call has hung lately, it sends each letter alone, several at once, and letters wait
// briefly.
type sender struct {
	*target
	turn   chan struct{} // full while a caller sends
	others chan struct{} // one for each further call; none while the sender is not wary

	mu      sync.Mutex
	hung    time.Time // when a call last hung; claims may work nevertheless, so health does not tell this
	stopped time.Time // when a letter was first not sent since one has last arrived; zero: none
	hasSent bool      // a letter has arrived; until then all letters are new to this program
	inRow   int       // how many new letters have failed since then
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
	s.deliver(ctx, batch)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	return true
}

func (s *sender) isWary() bool { return !s.hung.IsZero() && time.Since(s.hung) < wariness }

// pause returns how long a letter that was not sent waits for its next attempt: as long as none has
// arrived, from shortestResend to longestResend. How often the letter itself was tried matters only
// while calls hang: each attempt may keep its slot for longestWait.
func (s *sender) pause(attempt int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isWary() {
		return resendDelay(attempt)
	}
	if s.stopped.IsZero() {
		s.stopped = time.Now()
	}
	return min(max(time.Since(s.stopped), shortestResend), longestResend)
}

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

// errNotSent is the answer to letters that the backend was not asked to receive, or only with
// others.
var errNotSent = errors.New("router: not sent, because the backend has just failed")

// deliver sends a batch, and answers each letter. If a batch fails at once, it sends each letter
// alone: the reason may be one of them.
func (s *sender) deliver(ctx context.Context, batch []*letter) {
	if s.health.isLeftOut() {
		answer(batch, errNotSent)
		return
	}
	err, hung := s.receive(ctx, batch)
	switch {
	case err == nil || len(batch) == 1:
		answer(batch, err)
	case hung:
		answer(batch, fmt.Errorf("%w: %w", errNotSent, err))
	default:
		s.deliverEach(ctx, batch)
	}
}

// deliverEach sends the letters of a batch alone until the backend fails: failuresInRow times, or a
// call hangs. It draws their order, those that were tried least first: letters that fail each time
// do not stop the same others for ever.
func (s *sender) deliverEach(ctx context.Context, batch []*letter) {
	rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	slices.SortStableFunc(batch, func(a, b *letter) int { return cmp.Compare(a.attempt, b.attempt) })
	for inRow := 0; len(batch) > 0 && inRow < failuresInRow && ctx.Err() == nil; batch = batch[1:] {
		err, hung := s.receive(ctx, batch[:1])
		switch {
		case hung:
			inRow = failuresInRow
		case err != nil && isFailure(ctx, err):
			inRow++
		default:
			inRow = 0
		}
		answer(batch[:1], err)
	}
	answer(batch, errNotSent)
}

func answer(letters []*letter, err error) {
	for _, l := range letters {
		l.answered <- err
	}
}

// receive hands letters to the backend in one call, and reports whether that has failed by hanging.
func (s *sender) receive(ctx context.Context, batch []*letter) (err error, hung bool) {
	receiver, ok := driver.As[driver.Receiver](s.Queue)
	if !ok {
		return invalid("Routes", "the backend %T receives no jobs of an outbox", s.Queue), false
	}
	transfers := make([]driver.Transfer, len(batch))
	for i, l := range batch {
		transfers[i] = l.Transfer
	}
	began := time.Now()
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	switch err = call(sending, receiver, transfers); {
	case err == nil:
		s.noteArrival(ctx)
	case isFailure(ctx, err):
		if hung = time.Since(began) >= longestWait; hung {
			s.noteHanging()
		}
		if hung || len(batch) == 1 { // else each letter is sent alone
			s.noteFailure(ctx, err, batch[0].attempt == 1, hung)
		}
	}
	return err, hung
}

// call makes an error of a panic, which would give the job the worker's Backoff.
func call(ctx context.Context, receiver driver.Receiver, transfers []driver.Transfer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = queue.RecoveredPanic(v)
		}
	}()
	_, err = receiver.Receive(ctx, transfers...)
	return err
}

// noteArrival notes that the backend has received letters.
func (s *sender) noteArrival(ctx context.Context) {
	s.health.note(ctx, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped, s.hasSent, s.inRow = time.Time{}, true, 0
}

// noteHanging notes that a call has hung. The first time it answers the letters that wait: their
// calls could hang as long. Those that come later wait only briefly.
func (s *sender) noteHanging() {
	s.mu.Lock()
	defer s.mu.Unlock()
	isFirst := !s.isWary()
	s.hung = time.Now()
	if isFirst {
		answer(s.waiting, errNotSent)
		s.waiting = nil
	}
}

// noteFailure notes that a call has failed, with one letter or by hanging. That is a failure of the
// backend if it hangs, or if new letters fail one after the other. A letter that has failed before,
// at once, says nothing of a backend that works otherwise.
func (s *sender) noteFailure(ctx context.Context, err error, isNew, hung bool) {
	s.mu.Lock()
	isNew = isNew || !s.hasSent
	if isNew {
		s.inRow++
	}
	isOfBackend := hung || isNew && s.inRow == failuresInRow
	s.mu.Unlock()
	if isOfBackend || s.health.isSuspect() {
		s.health.note(ctx, err)
	}
}
