package postgres

import (
	"sync"
	"time"
)

// Sleeping workers' registrations.
//
// Problem: a worker that falls asleep registers in the table sleepers, so that Enqueue need not
// notify while all are awake, and looks for the next scheduled job. Each registration leaves a dead
// row under the same key. During a long transaction VACUUM cannot remove them, nor the index
// entries of claimed jobs, and every registration and every Enqueue scans them all.
// Rule: when the last four registrations took slowRegistration each, a worker registers at most
// once in longestRegistration. It stays registered while it is awake, and is notified more often
// than needed.
// Bounds: a scheduled job is noticed longestRegistration late at most.
// Shown by: TestSleepersBesideDeadRows; the lab's scenario pinned.

const (
	// slowRegistration is some ten times what a registration usually takes the server.
	slowRegistration    = time.Millisecond
	longestRegistration = 5 * time.Second
	// maxRegistrations bounds the memory for workers that come and go.
	maxRegistrations = 10_000
)

// sleepers is what this process knows about the table. Its zero value knows nothing.
type sleepers struct {
	mu    sync.Mutex
	count int64                   // the number of the last registration
	last  map[string]registration // of each worker that is registered
	times recentTimes             // of registrations, by the server's clock

	swept time.Time // when this process last removed old registrations
}

// sweepEvery is how often a process removes the registrations that are a minute old.
const sweepEvery = 30 * time.Second

// shouldSweep reports whether it is time to remove old registrations.
func (s *sleepers) shouldSweep(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.swept) < sweepEvery {
		return false
	}
	s.swept = now
	return true
}

// registration is a worker's row in the table.
type registration struct {
	number int64
	since  time.Time
	due    time.Time // when the next scheduled job is due; zero if there is none
}

// stillRegistered reports whether a worker that falls asleep need not register, because
// registrations are slow and its last one still holds. The worker has to look for jobs again after
// next at the latest.
func (s *sleepers) stillRegistered(worker string, now time.Time) (next time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.last[worker]
	if !s.holds(r, now) {
		return 0, false
	}
	end := r.since.Add(longestRegistration)
	if r.due.After(now) && r.due.Before(end) {
		end = r.due
	}
	return end.Sub(now), true
}

// holds reports whether a registration outlasts a wake-up. The caller has locked mu.
func (s *sleepers) holds(r registration, now time.Time) bool {
	return s.times.allTook(slowRegistration) && now.Sub(r.since) < longestRegistration
}

// begin returns the number of the worker's new registration. Numbers begin with the time: a process
// that has ended may still be deregistering a worker whose name another process uses by now.
func (s *sleepers) begin(worker string, now time.Time) (number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || len(s.last) >= maxRegistrations {
		s.last = make(map[string]registration)
	}
	if s.count == 0 {
		s.count = now.UnixMicro()
	}
	s.count++
	s.last[worker] = registration{number: s.count, since: now}
	return s.count
}

// noteRegistered records when the next scheduled job is due, and how long the registration took the
// server. The worker may have been woken meanwhile.
func (s *sleepers) noteRegistered(worker string, number int64, due time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times.add(took, 0)
	if r := s.last[worker]; r.number == number {
		r.due = due
		s.last[worker] = r
	}
}

// noteWoken returns the workers to deregister after a notification. Only registrations up to the
// returned number go: a worker may fall asleep again meanwhile.
func (s *sleepers) noteWoken(workers []string, now time.Time) (number int64, deregister []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, worker := range workers {
		if !s.holds(s.last[worker], now) {
			delete(s.last, worker)
			deregister = append(deregister, worker)
		}
	}
	return s.count, deregister
}

// forget drops what is known about a worker that may or may not be registered.
func (s *sleepers) forget(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, worker)
}
