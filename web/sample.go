package web

import (
	"cmp"
	"context"
	"sync"
	"time"
)

const (
	// minInterval is the shortest time between two readings of a sample that has no longer one.
	minInterval = 2 * time.Second
	// A reading that takes longer than light is heavy. All heavy readings together take at most one
	// part in restFactor of the time, and all light ones as much, but a light one is repeated after
	// maxLightRest, and a heavy one after maxRest. A reading that nobody asks for does not count any
	// more when it has been out of date for maxIdle.
	light        = 5 * time.Millisecond
	restFactor   = 200
	maxLightRest = 10 * time.Second
	maxRest      = 10 * time.Minute
	maxIdle      = time.Minute
	// A reading that has failed is repeated after failedRest, and after twice as long each time that
	// it fails again.
	failedRest = 15 * time.Second
	// patience is how long a page waits for all new readings before it shows the last ones. The page
	// that follows an action waits for patienceAfter, so that it shows what the action has changed.
	patience      = 150 * time.Millisecond
	patienceAfter = callTimeout + time.Second
	// A page says how old a reading is that is older than freshFor. A verdict rests on none that is
	// older than trustedFor.
	freshFor   = 5 * time.Second
	trustedFor = 15 * time.Second
)

// sampled is something that the handler reads from the backend for all sessions. Nothing is read
// while nobody asks.
type sampled[T any] struct {
	h        *Handler
	name     string
	interval time.Duration // the shortest time between two readings
	isFact   bool          // it is cheap, and always read after interval
	longest  time.Duration // the longest time between two readings; 0 means maxRest
	timeout  time.Duration // of a reading
	read     func(context.Context) (T, error)

	mu      sync.Mutex
	last    reading[T]
	next    time.Time     // before it nothing is read, unless there was an action
	actions int64         // how many actions there had been when last was read
	failed  int           // how many readings have failed since one has succeeded
	running chan struct{} // closed when the reading that is under way ends; nil if none is
}

// reading is what was read, and when.
type reading[T any] struct {
	Value T
	At    time.Time     // zero if nothing could be read yet
	Rest  time.Duration // how long Value is shown before it is read again
	Err   error         // why the last reading failed; nil if it is all right
	// IsAwaited says that Value is missing or out of date, and is being read.
	IsAwaited bool
}

// patienceKey is the key of the time until which a page waits for readings.
type patienceKey struct{}

// withPatience returns a context for a page that waits so long for readings.
func withPatience(ctx context.Context, patience time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, time.Now().Add(patience))
}

// begin begins to read if it is time. A page begins all that it needs before it waits.
func (s *sampled[T]) begin() {
	if s != nil {
		s.look()
	}
}

// begin begins to read the samples for which it is time.
func begin(all ...interface{ begin() }) {
	for _, s := range all {
		s.begin()
	}
}

// get returns the last reading, and reads again if it is time. It waits until the page's patience
// is over.
func (s *sampled[T]) get(ctx context.Context) reading[T] {
	if s == nil { // the backend lacks the capability
		return reading[T]{}
	}
	until, _ := ctx.Value(patienceKey{}).(time.Time)
	short := time.NewTimer(time.Until(until))
	defer short.Stop()
	for {
		last, running, isCurrent := s.look()
		if running == nil {
			return last
		}
		select {
		case <-running:
		case <-short.C:
			last.IsAwaited = !isCurrent || time.Since(last.At) > last.Rest+freshFor
			return last
		case <-ctx.Done():
			return last
		}
	}
}

// outdate lets the next get read again if the last reading is of before that time.
func (s *sampled[T]) outdate(before time.Time) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.At.Before(before) {
		s.next = time.Time{}
	}
}

// look returns the last reading. If it is time for another, look begins it and returns a channel
// that is closed at its end. isCurrent is false if there was an action since the last reading.
func (s *sampled[T]) look() (last reading[T], running <-chan struct{}, isCurrent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	actions := s.h.actions.Load()
	isCurrent = s.actions == actions && !s.next.IsZero()
	if isCurrent && time.Now().Before(s.next) {
		return s.last, nil, true
	}
	if s.running == nil {
		s.running = make(chan struct{})
		go s.readOnce(actions, time.Now().Before(s.next))
	}
	return s.last, s.running, isCurrent
}

// readOnce reads and notes the result. isEarly says that a person has asked for it before its time.
func (s *sampled[T]) readOnce(actions int64, isEarly bool) {
	began := time.Now()
	var value T
	err := s.h.call(s.h.ctx, s.timeout, func(ctx context.Context) (err error) {
		value, err = s.read(ctx)
		return err
	})
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := cmp.Or(s.longest, maxRest)
	if err == nil {
		s.last, s.failed = reading[T]{Value: value, At: began}, 0
	} else {
		longest = min(longest, failedRest<<min(s.failed, 10))
		s.failed++
		if s.last.Err == nil {
			s.h.options.Logger.Error("errand: dashboard: read failed, will retry", "what", s.name, "error", err)
		}
		s.last.Err = err
	}
	s.actions = actions
	s.last.Rest = s.interval
	if !s.isFact {
		s.last.Rest = max(s.interval, s.h.load.rest(s, took, longest))
		if isEarly {
			s.h.load.owe(took)
		}
	}
	s.next = time.Now().Add(s.last.Rest)
	close(s.running)
	s.running = nil
}

// load is what readings have lately cost. The zero value is that of none.
type load struct {
	mu     sync.Mutex
	lately map[any]cost // by sample
	owed   time.Time    // until then, what was read before its time takes more than its part
}

// cost is how long a reading has taken, and when the next one is due.
type cost struct {
	took time.Duration
	next time.Time
}

// mayHurry reports whether a person may have everything read before its time. Such readings
// together take at most one part in restFactor of the time, of which they may use maxRest in
// advance.
func (l *load) mayHurry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.owed) < maxRest
}

// owe notes how long a reading before its time has taken.
func (l *load) owe(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.owed.Before(now) {
		l.owed = now
	}
	l.owed = l.owed.Add(restFactor * took)
}

// rest notes how long the reading of a sample has taken, and returns how long to wait before the
// next one: not longer than longest.
func (l *load) rest(sample any, took, longest time.Duration) (rest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lately == nil {
		l.lately = make(map[any]cost)
	}
	now := time.Now()
	l.lately[sample] = cost{took, now}
	defer func() { l.lately[sample] = cost{took, now.Add(rest)} }()
	var allLight, allHeavy time.Duration
	for key, c := range l.lately {
		switch {
		case now.Sub(c.next) > maxIdle:
			delete(l.lately, key)
		case c.took <= light:
			allLight += c.took
		default:
			allHeavy += c.took
		}
	}
	if took <= light {
		return min(max(minInterval, restFactor*allLight), maxLightRest, longest)
	}
	return min(restFactor*allHeavy, longest)
}
