package memory

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

// sleeper is a worker that listens or is registered as sleeping.
type sleeper struct {
	queues    []string
	asleep    bool
	signal    chan struct{} // holds one signal: it has been woken
	listeners int           // calls of Listen; a worker that starts again may overlap its former self
}

// sleeper returns the sleeper of that worker. Names are unique only among the workers of one queue.
// The caller holds q.mu.
func (q *Queue) sleeper(worker string, queues []string) (s *sleeper, key string) {
	key = worker + "\n" + strings.Join(queues, "\n")
	if q.sleepers[key] == nil {
		q.sleepers[key] = &sleeper{queues: slices.Clone(queues), signal: make(chan struct{}, 1)}
	}
	return q.sleepers[key], key
}

// wake wakes the workers that sleep on the queue. The caller holds q.mu.
func (q *Queue) wake(name string) {
	for _, s := range q.sleepers {
		if s.asleep && slices.Contains(s.queues, name) {
			s.asleep = false
			select {
			case s.signal <- struct{}{}:
			default: // it has yet to notice the one before
			}
		}
	}
}

// listener is a call of Listen.
type listener struct {
	worker  string
	signal  driver.Signal // what it has to tell, beside jobs
	changed chan struct{} // holds one signal: there is something to tell
}

// notify makes Listen take the signal. The caller holds q.mu.
func (l *listener) notify() {
	select {
	case l.changed <- struct{}{}:
	default: // it has yet to take the one before
	}
}

// Listen implements [driver.Waiter]. It calls tell in the caller's goroutine.
func (q *Queue) Listen(ctx context.Context, worker string, queues []string, tell func(driver.Signal)) error {
	l := &listener{worker: worker, changed: make(chan struct{}, 1)}
	q.mu.Lock()
	s, key := q.sleeper(worker, queues)
	s.listeners++
	q.listeners[l] = true
	q.mu.Unlock()
	for {
		select {
		case <-s.signal:
			tell(driver.Signal{Jobs: true})
		case <-l.changed:
			q.mu.Lock()
			news := l.signal
			l.signal = driver.Signal{}
			q.mu.Unlock()
			tell(news)
		case <-ctx.Done():
			q.mu.Lock()
			defer q.mu.Unlock()
			delete(q.listeners, l)
			if s.listeners--; s.listeners == 0 {
				delete(q.sleepers, key)
			}
			return nil
		}
	}
}

// CheckListen implements [driver.Waiter]: nothing can fail.
func (q *Queue) CheckListen(string) error { return nil }

// Sleep implements [driver.Waiter]. Its next does not consider jobs that are due already: the
// worker claims once more after it.
func (q *Queue) Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, failed("sleep", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s, _ := q.sleeper(worker, queues)
	s.asleep = true
	at := now()
	next = -1
	for _, name := range queues {
		for _, rows := range q.advanced(name, nil, at) {
			if r := rows.scheduled.first(); r != nil && (next < 0 || r.due.Sub(at) < next) {
				next = r.due.Sub(at)
			}
		}
		if due := q.nextHeadDue(name, at); due >= 0 && (next < 0 || due < next) {
			next = due
		}
		if tokens := q.tokens[name].Sub(at); tokens > 0 && (next < 0 || tokens < next) {
			next = tokens
		}
	}
	return next, nil
}
