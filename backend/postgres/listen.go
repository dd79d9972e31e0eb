package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// errNoListen is what Listen says without Options.Listen: the worker polls.
var errNoListen = errors.New("postgres: listen: Options.Listen is nil")

// listener is a worker whose Listen is under way.
type listener struct {
	worker string
	queues []string
	wake   func()
	failed chan error // holds the error for which nobody can listen
}

// station is the one connection that listens for all workers of the backend, from the first call of Listen until the last has ended.
type station struct {
	stop      context.CancelFunc
	ended     chan struct{} // closed when it listens no more
	up        bool          // it listens; else it is connecting
	listeners map[*listener]struct{}
}

// stations has the backend's station, or nil while no worker listens.
type stations struct {
	mu  sync.Mutex
	now *station
}

// Listen implements [queue.Waiter]: it listens on the channel that bears the schema's name, whose notifications bear the names of queues.
// All calls share one connection of the *sql.DB, or one beside it if that is how Options.Listen works. When ctx ends, Listen takes the
// worker off the list of those asleep, for which the server has five seconds.
func (b *Backend) Listen(ctx context.Context, worker string, queues []string, wake func()) error {
	if b.options.Listen == nil {
		return errNoListen
	}
	l := &listener{worker: worker, queues: slices.Clone(queues), wake: wake, failed: make(chan error, 1)}
	s := b.join(ctx, l)
	select {
	case err := <-l.failed:
		return err
	case <-ctx.Done():
	}
	b.leave(s, l)
	b.sleepers.forget(worker)
	b.takeOff(context.WithoutCancel(ctx), queues, []string{worker}, math.MaxInt64)
	return nil
}

// join adds a worker to the station, which begins with it if it is the first.
func (b *Backend) join(ctx context.Context, l *listener) *station {
	b.stations.mu.Lock()
	s := b.stations.now
	if s == nil {
		s = &station{ended: make(chan struct{}), listeners: make(map[*listener]struct{})}
		ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
		b.stations.now = s
		go b.serve(ctx, s)
	}
	s.listeners[l] = struct{}{}
	up := s.up
	b.stations.mu.Unlock()
	if up {
		l.wake() // what was notified before went unheard
	}
	return s
}

// leave removes a worker from the station, which ends with it if it was the last.
func (b *Backend) leave(s *station, l *listener) {
	b.stations.mu.Lock()
	delete(s.listeners, l)
	last := len(s.listeners) == 0 && b.stations.now == s
	if last {
		b.stations.now = nil
	}
	b.stations.mu.Unlock()
	if last {
		s.stop()
		<-s.ended
	}
}

// serve listens until the station ends, and connects anew where the connection breaks.
func (b *Backend) serve(ctx context.Context, s *station) {
	defer close(s.ended)
	const shortest, longest = 50 * time.Millisecond, 5 * time.Second
	pause := shortest
	ready := func() {
		pause = shortest
		b.wakeAll(s)
	}
	for ctx.Err() == nil {
		err := b.options.Listen(ctx, b.db, b.options.Schema, ready, func(name string) { b.notified(ctx, s, name) })
		b.setUp(s, false)
		if errors.Is(err, errors.ErrUnsupported) {
			b.fail(s, fmt.Errorf("postgres: listen: %w", err))
			return
		}
		// Else the connection broke, or there was none: that the database is away
		// is the worker's claims' to tell.
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
			pause = min(2*pause, longest)
			b.weed(ctx) // the next is to be none that broke with the last
		}
	}
}

// setUp notes whether the station hears what is notified, and returns the workers that listen.
func (b *Backend) setUp(s *station, up bool) (all []*listener) {
	b.stations.mu.Lock()
	defer b.stations.mu.Unlock()
	s.up = up
	for l := range s.listeners {
		all = append(all, l)
	}
	return all
}

// wakeAll wakes all workers because the station has begun to listen: what was notified before went unheard.
func (b *Backend) wakeAll(s *station) {
	for _, l := range b.setUp(s, true) {
		b.sleepers.forget(l.worker) // as a server has that crashed
		l.wake()
	}
}

// fail ends the station: nobody can listen.
func (b *Backend) fail(s *station, err error) {
	b.stations.mu.Lock()
	defer b.stations.mu.Unlock()
	if b.stations.now == s {
		b.stations.now = nil
	}
	for l := range s.listeners {
		l.failed <- err
	}
	s.stop()
}

// hears reports whether the worker would hear of what is notified now.
func (b *Backend) hears(worker string) bool {
	b.stations.mu.Lock()
	defer b.stations.mu.Unlock()
	s := b.stations.now
	if s == nil || !s.up {
		return false
	}
	for l := range s.listeners {
		if l.worker == worker {
			return true
		}
	}
	return false
}

// listenersOf returns the workers of a queue.
func (b *Backend) listenersOf(s *station, name string) (all []*listener) {
	b.stations.mu.Lock()
	defer b.stations.mu.Unlock()
	for l := range s.listeners {
		if slices.Contains(l.queues, name) {
			all = append(all, l)
		}
	}
	return all
}

// notified wakes the workers of a queue and takes them off the list of those asleep, so that
// enqueueing need not notify while they are awake.
func (b *Backend) notified(ctx context.Context, s *station, name string) {
	b.heard.Add(1)
	all := b.listenersOf(s, name)
	workers := make([]string, len(all))
	for i, l := range all {
		workers[i] = l.worker
	}
	nap, off := b.sleepers.woken(workers, time.Now()) // they may fall asleep again before the statement is through
	var queues []string
	for _, l := range all {
		l.wake()
		if slices.Contains(off, l.worker) {
			queues = append(queues, l.queues...)
		}
	}
	if len(off) > 0 {
		b.takeOff(ctx, queues, off, nap)
	}
}

// wakeTimeout bounds a statement that the network has swallowed.
const wakeTimeout = 5 * time.Second

// takeOff takes workers off the list of those asleep. If this fails they stay on the list, and what becomes due in the next minute
// notifies once more than needed. It returns when ctx ends or the time is up, though lib/pq goes on reading then.
func (b *Backend) takeOff(ctx context.Context, queues, workers []string, nap int64) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout) // notifications wait for it
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		_, err := b.db.ExecContext(ctx, b.sql.wake, textArray(queues), textArray(workers), nap)
		b.noteSilence(err)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Sleep implements [queue.Waiter] with sql/sleep.sql.
func (b *Backend) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	now := time.Now()
	if next, ok := b.sleepers.goesOn(worker, now); ok {
		return next, nil
	}
	nap := b.sleepers.begin(worker, now)
	next, took, err := b.register(ctx, worker, queues, nap)
	if err != nil {
		b.sleepers.forget(worker)
		return -1, err
	}
	var due time.Time
	if next >= 0 {
		due = time.Now().Add(next)
	}
	b.sleepers.found(worker, nap, due, took)
	return next, nil
}

// register puts the worker on the list, if it would hear of what is notified. It returns after how long the next scheduled job is due,
// below 0 if there is none, and how long the server took.
func (b *Backend) register(ctx context.Context, worker string, queues []string, nap int64) (next, took time.Duration, err error) {
	var due sql.NullInt64
	var micros int64
	err = b.on(ctx, "sleep", nil, func(db queue.DB) error {
		return each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&due, &micros) },
			b.sql.sleep, textArray(queues), worker, nap, b.hears(worker))
	})
	if err != nil || !due.Valid {
		return -1, sqlkit.Duration(micros), err
	}
	return sqlkit.Duration(due.Int64), sqlkit.Duration(micros), nil
}
