package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// errNoListen is the error of Listen without Options.Listen: the worker polls.
var errNoListen = errors.New("postgres: listen: Options.Listen is nil")

// controlMark begins the notifications of sql/cancel.sql and sql/pause_kind.sql. No queue's name
// has it.
const controlMark = '\x01'

// subscriber is a worker whose Listen is running.
type subscriber struct {
	worker string
	queues []string
	tell   func(driver.Signal)
	failed chan error // gets the error if nobody can listen
}

// listener is the one connection that listens for all subscribers, from the first call of Listen
// until the last has ended.
type listener struct {
	stop        context.CancelFunc
	ended       chan struct{} // closed when it has stopped
	isListening bool          // otherwise it is connecting
	failure     error         // with which it last ceased to listen; nil while it listens
	subscribers map[*subscriber]struct{}
	awake       awake
}

// listening holds the backend's listener.
type listening struct {
	mu  sync.Mutex
	now *listener // nil while there are no subscribers
}

// Listen implements [driver.Waiter]: it listens on the channel that has the schema's name. A
// notification has the name of a queue, or is one of sql/cancel.sql or sql/pause_kind.sql. All
// calls share one connection of the *sql.DB, or one beside it if Options.Listen works like that.
// When ctx ends, Listen removes the worker's registration, for which the server has five seconds.
func (b *Backend) Listen(ctx context.Context, worker string, queues []string, tell func(driver.Signal)) error {
	if b.options.Listen == nil {
		return errNoListen
	}
	s := &subscriber{worker: worker, queues: slices.Clone(queues), tell: tell, failed: make(chan error, 1)}
	l := b.subscribe(ctx, s)
	select {
	case err := <-s.failed:
		return err
	case <-ctx.Done():
	}
	b.unsubscribe(l, s)
	b.sleepers.forget(worker)
	b.deregister(context.WithoutCancel(ctx), queues, map[string]int64{worker: math.MaxInt64})
	return nil
}

// subscribe adds a subscriber to the listener. The first one starts it.
func (b *Backend) subscribe(ctx context.Context, s *subscriber) *listener {
	b.listening.mu.Lock()
	l := b.listening.now
	if l == nil {
		l = &listener{ended: make(chan struct{}), subscribers: make(map[*subscriber]struct{})}
		ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
		b.listening.now = l
		go b.keepListening(ctx, l)
	}
	l.subscribers[s] = struct{}{}
	isListening := l.isListening
	b.listening.mu.Unlock()
	if isListening {
		s.tell(driver.AllSignals()) // it has missed what was notified before
	}
	return l
}

// unsubscribe removes a subscriber from the listener. The last one stops it.
func (b *Backend) unsubscribe(l *listener, s *subscriber) {
	b.listening.mu.Lock()
	delete(l.subscribers, s)
	last := len(l.subscribers) == 0 && b.listening.now == l
	if last {
		b.listening.now = nil
	}
	b.listening.mu.Unlock()
	if last {
		l.stop()
		<-l.ended
	}
}

// keepListening listens until the listener is stopped. It reconnects when the connection breaks.
func (b *Backend) keepListening(ctx context.Context, l *listener) {
	defer close(l.ended)
	defer l.awake.running.Wait()
	const shortest, longest = 50 * time.Millisecond, 5 * time.Second
	pause := shortest
	ready := func() {
		pause = shortest
		b.wakeAll(l)
	}
	for ctx.Err() == nil {
		err := b.options.Listen(ctx, b.db, b.options.Schema, ready, func(name string) { b.handleNotification(ctx, l, name) })
		b.setListening(l, false, err)
		if errors.Is(err, errors.ErrUnsupported) {
			b.failAll(l, fmt.Errorf("postgres: listen: %w", err))
			return
		}
		// Otherwise the connection broke, or there was none. The worker learns of it by CheckListen.
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
			pause = min(2*pause, longest)
			dropDeadConns(ctx, b.db) // so that Options.Listen gets one that works
		}
	}
}

// setListening records whether the listener hears notifications, and if not, why. It returns the
// subscribers.
func (b *Backend) setListening(l *listener, is bool, failure error) (all []*subscriber) {
	b.listening.mu.Lock()
	defer b.listening.mu.Unlock()
	l.isListening, l.failure = is, failure
	for s := range l.subscribers {
		all = append(all, s)
	}
	return all
}

// wakeAll wakes all subscribers when the listener has begun to listen: they have missed what was
// notified before, and a server that has crashed has lost their registrations.
func (b *Backend) wakeAll(l *listener) {
	for _, s := range b.setListening(l, true, nil) {
		b.sleepers.forget(s.worker)
		s.tell(driver.AllSignals())
	}
}

// failAll ends the listener and returns the error to all subscribers: nobody can listen.
func (b *Backend) failAll(l *listener, err error) {
	b.listening.mu.Lock()
	defer b.listening.mu.Unlock()
	if b.listening.now == l {
		b.listening.now = nil
	}
	for s := range l.subscribers {
		s.failed <- err
	}
	l.stop()
}

// isListening reports whether the worker would hear a notification now.
func (b *Backend) isListening(worker string) bool {
	b.listening.mu.Lock()
	defer b.listening.mu.Unlock()
	l := b.listening.now
	if l == nil || !l.isListening {
		return false
	}
	for s := range l.subscribers {
		if s.worker == worker {
			return true
		}
	}
	return false
}

// CheckListen implements [driver.Waiter]. All workers share the listening connection.
func (b *Backend) CheckListen(string) error {
	b.listening.mu.Lock()
	defer b.listening.mu.Unlock()
	if l := b.listening.now; l != nil && l.failure != nil {
		return fmt.Errorf("postgres: listen: %w", l.failure)
	}
	return nil
}

// subscribersOf returns the workers that are chosen.
func (b *Backend) subscribersOf(l *listener, isChosen func(*subscriber) bool) (all []*subscriber) {
	b.listening.mu.Lock()
	defer b.listening.mu.Unlock()
	for s := range l.subscribers {
		if isChosen(s) {
			all = append(all, s)
		}
	}
	return all
}

// handleNotification wakes the workers of a queue. Their registrations are removed soon, so that
// Enqueue need not notify while they are awake.
func (b *Backend) handleNotification(ctx context.Context, l *listener, name string) {
	b.notifications.Add(1)
	if text, isControl := strings.CutPrefix(name, string(controlMark)); isControl {
		b.handleControl(l, text)
		return
	}
	b.ticks.Expire() // a change of schedules notifies, too
	b.rules.Hurry(name)
	all := b.subscribersOf(l, func(s *subscriber) bool { return slices.Contains(s.queues, name) })
	workers := make([]string, len(all))
	for i, s := range all {
		workers[i] = s.worker
	}
	upTo, woken := b.sleepers.noteWoken(workers, time.Now()) // they may soon fall asleep again
	var queues []string
	for _, s := range all {
		s.tell(driver.Signal{Jobs: true})
		if slices.Contains(woken, s.worker) {
			queues = append(queues, s.queues...)
		}
	}
	b.deregisterSoon(ctx, &l.awake, queues, woken, upTo)
}

// Sleep implements [driver.Waiter] with sql/sleep.sql, and sql/unaware.sql for a worker that
// listens.
func (b *Backend) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	now := time.Now()
	if wait, ok := b.rules.areHeld(queues, now); ok {
		return wait, nil // too short to register
	}
	next, unaware, isRegistered := b.sleepers.stillRegistered(worker, now)
	if unaware {
		look, hasEnded, err := b.lookAgain(ctx, worker, false)
		if err != nil {
			return -1, err
		}
		next = min(next, look)
		isRegistered = !hasEnded
	}
	if !isRegistered {
		if next, err = b.fallAsleep(ctx, worker, queues); err != nil {
			return -1, err
		}
	}
	return b.rules.bound(queues, b.ordered.bound(queues, next, now)), nil
}

// fallAsleep registers the worker as asleep, if it would hear a notification. It returns after how
// long the worker has to look for jobs again, or less than 0 if only a notification is a reason.
func (b *Backend) fallAsleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	isListening := b.isListening(worker)
	registered := queues
	if !isListening {
		registered = nil
	}
	number, question := b.sleepers.begin(worker, registered, time.Now()), b.ticks.Ask()
	next, took, tick, err := b.register(ctx, worker, queues, number, isListening)
	if err != nil {
		b.sleepers.forget(worker)
		return -1, err
	}
	var due time.Time
	if next >= 0 {
		due = time.Now().Add(next)
	}
	b.sleepers.noteRegistered(worker, number, due, took)
	b.ticks.NoteAsleep(question, tick)
	if !isListening {
		return next, nil
	}
	look, _, err := b.lookAgain(ctx, worker, true)
	if look >= 0 && (next < 0 || look < next) {
		next = look
	}
	return next, err
}

// lookAgain asks the server which transactions are open that may be unaware of the worker's
// registration; isNew tells that it is a new one. It returns after how long the worker has to look
// for their jobs again, or less than 0 if there is none, and whether one has ended.
func (b *Backend) lookAgain(ctx context.Context, worker string, isNew bool) (next time.Duration, hasEnded bool, err error) {
	var open []string
	err = b.run(ctx, "sleep", nil, func(db queue.DB) error {
		open, err = sqlkit.QueryAll(ctx, db, sqlkit.ScanValue[string], b.sql["unaware"])
		return err
	})
	if err != nil {
		b.sleepers.forget(worker)
		return -1, false, err
	}
	next, hasEnded = b.sleepers.noteOpen(worker, open, isNew, time.Now())
	return next, hasEnded, nil
}

// register registers the worker as asleep, if it is listening. It returns after how long the next
// scheduled job is due, or less than 0 if there is none, how long the server took, and after how
// long the next tick of a schedule comes, or less than 0 if there is none.
func (b *Backend) register(ctx context.Context, worker string, queues []string, number int64, isListening bool) (next, took, tick time.Duration, err error) {
	var due, nextTick sql.NullInt64
	var micros int64
	err = b.run(ctx, "sleep", nil, func(db queue.DB) error {
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&due, &micros, &nextTick) },
			b.sql["sleep"], textArray(queues), worker, number, isListening)
	})
	return untilDue(due), sqlkit.Duration(micros), untilDue(nextTick), err
}

// untilDue returns a number of microseconds as a duration, of 0 at least, or -1 for NULL.
func untilDue(micros sql.NullInt64) time.Duration {
	if !micros.Valid {
		return -1
	}
	return sqlkit.Duration(max(micros.Int64, 0))
}
