package postgres

import (
	"sync"
	"time"
)

// A worker that falls asleep puts itself on a list, the table sleepers, so that enqueueing need not notify while all are
// awake, and looks for the next scheduled job. Some hundred naps a second leave as many dead rows under the same few keys. While some
// transaction, anywhere in the database, could still see them, they stay, as do the index entries of claimed jobs, and every nap, and every
// enqueue, walks them all. Where that has made naps dear, a worker registers at most once in five seconds: meanwhile it stays on the list,
// asleep or awake, and is notified more often than needed.

const (
	// dearNap is what the server takes, at least, where naps are dear: some ten times the usual.
	dearNap = time.Millisecond
	// longestNap is how long a registration holds then, and how late a scheduled job may be noticed.
	longestNap = 5 * time.Second
	// maxNappers bounds the memory that workers take which come and go.
	maxNappers = 10_000
)

// sleepers is what this process knows of the list. Its zero value knows nothing.
type sleepers struct {
	mu   sync.Mutex
	naps int64          // how many there were, for their order
	last map[string]nap // of each worker, but for those that are off the list
	took samples        // by the server, for registering and looking

	swept time.Time // when this process last took off the list what is too old
}

// sweepEvery is how often a process takes off the list what has been there for a minute.
const sweepEvery = 30 * time.Second

// shouldSweep reports whether it is time for that.
func (s *sleepers) shouldSweep(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.swept) < sweepEvery {
		return false
	}
	s.swept = now
	return true
}

// nap is from when a worker registered until it is taken off the list.
type nap struct {
	number int64
	since  time.Time
	due    time.Time // when the next scheduled job is; zero if there is none
}

// goesOn says that a worker that falls asleep need not register: naps are dear, and its last still holds. It has to look again after
// next at the latest.
func (s *sleepers) goesOn(worker string, now time.Time) (next time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.last[worker]
	if !s.holds(n, now) {
		return 0, false
	}
	end := n.since.Add(longestNap)
	if n.due.After(now) && n.due.Before(end) {
		end = n.due
	}
	return end.Sub(now), true
}

// holds is called with mu held.
func (s *sleepers) holds(n nap, now time.Time) bool {
	return s.took.allTook(dearNap) && now.Sub(n.since) < longestNap
}

// begin numbers a nap, which from here on is the worker's.
func (s *sleepers) begin(worker string, now time.Time) (number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || len(s.last) >= maxNappers {
		s.last = make(map[string]nap)
	}
	s.naps++
	s.last[worker] = nap{number: s.naps, since: now}
	return s.naps
}

// found takes note of what registering has found, and how long that took the server. The worker may have been woken meanwhile.
func (s *sleepers) found(worker string, number int64, due time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took.add(took, 0)
	if n := s.last[worker]; n.number == number {
		n.due = due
		s.last[worker] = n
	}
}

// woken returns which of the workers that are notified have to be taken off the list, unless they have fallen asleep again since
// that nap.
func (s *sleepers) woken(workers []string, now time.Time) (number int64, off []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, worker := range workers {
		if !s.holds(s.last[worker], now) {
			delete(s.last, worker)
			off = append(off, worker)
		}
	}
	return s.naps, off
}

// forget is for a worker of which it is not known whether it is on the list.
func (s *sleepers) forget(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, worker)
}
