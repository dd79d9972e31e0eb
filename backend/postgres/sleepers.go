package postgres

import (
	"slices"
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
//
// Transactions that do not know of a registration.
//
// Problem: a statement that makes jobs pending looks who sleeps, and its transaction commits later.
// If a worker registers in between, nobody notifies it, and its next claim does not see the jobs.
// Rule: such a transaction keeps a lock on the table, so the server knows which are open. A worker
// that has registered asks for them (sql/unaware.sql). While one of those is open, the worker looks
// for jobs and asks again, after a quarter of the time for which this process has known of it. When
// one has ended, the worker registers again, to learn when the next job is due. It was registered
// all the time, so those that have begun meanwhile know of it, and only the others go on counting.
// Bounds: a job of such a transaction waits for that quarter at most, or shortestLook if that is
// longer, and never for more than longestLook.
// Shown by: TestCommitAfterSleep, TestOverlappingTransactions, TestLooksAgain; the lab's scenario
// heads.

const (
	// slowRegistration is some ten times what a registration usually takes the server.
	slowRegistration    = time.Millisecond
	longestRegistration = 5 * time.Second
	// maxRegistrations bounds the memory for workers that come and go.
	maxRegistrations = 10_000
	// shortestLook and longestLook bound after how long a worker looks again for jobs of
	// transactions that do not know of its registration.
	shortestLook = 10 * time.Millisecond
	longestLook  = time.Second
	// continuous is for how long a registration is certainly in the table, unless this process has
	// removed it: others remove it after a minute.
	continuous = 45 * time.Second
)

// sleepers is what this process knows about the table. Its zero value knows nothing.
type sleepers struct {
	mu    sync.Mutex
	count int64                   // the number of the last registration
	last  map[string]registration // of each worker that is registered
	times recentTimes             // of registrations, by the server's clock
	known map[string]time.Time    // open transactions that have looked who sleeps, and since when they are known

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
	number  int64
	since   time.Time
	due     time.Time // when the next scheduled job is due; zero if there is none
	unaware []string  // open transactions that may not know of it
	queues  []string  // whose rows are in the table; none if the worker does not listen
	renewed bool      // it replaces one that was in the table until then
}

// stillRegistered reports whether a worker that falls asleep need not register: its last
// registration still holds, and registrations are slow or some transactions are unaware of that
// one. The worker has to look for jobs again after next at the latest.
func (s *sleepers) stillRegistered(worker string, now time.Time) (next time.Duration, unaware, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.last[worker]
	unaware = len(r.unaware) > 0
	if !s.holds(r, now) && (!unaware || now.Sub(r.since) >= longestRegistration) {
		return 0, false, false
	}
	end := r.since.Add(longestRegistration)
	if r.due.After(now) && r.due.Before(end) {
		end = r.due
	}
	return end.Sub(now), unaware, true
}

// holds reports whether a registration outlasts a wake-up. The caller has locked mu.
func (s *sleepers) holds(r registration, now time.Time) bool {
	return s.times.allTook(slowRegistration) && now.Sub(r.since) < longestRegistration
}

// begin returns the number of the worker's new registration in queues, none if it does not listen.
// Numbers begin with the time: a process that has ended may still be deregistering a worker whose
// name another process uses by now.
func (s *sleepers) begin(worker string, queues []string, now time.Time) (number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || len(s.last) >= maxRegistrations {
		s.last = make(map[string]registration)
	}
	if s.count == 0 {
		s.count = now.UnixMicro()
	}
	s.count++
	r := registration{number: s.count, since: now, queues: slices.Clone(queues)}
	if before := s.last[worker]; now.Sub(before.since) < continuous && len(queues) > 0 && slices.Equal(before.queues, queues) {
		r.unaware, r.renewed = before.unaware, true
	}
	s.last[worker] = r
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

// noteOpen records which transactions that have looked who sleeps are open. If isNew, the worker
// has registered just before, and all of them may be unaware of that; if it has renewed a
// registration, those of them that were unaware of that one. It returns after how long the worker
// has to look for jobs again, or less than 0 if none is unaware, and whether one that was has
// ended, or the worker has been woken: then it has to register again, because a job may be due
// later.
func (s *sleepers) noteOpen(worker string, open []string, isNew bool, now time.Time) (next time.Duration, hasEnded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[string]time.Time, len(open))
	for _, tx := range open {
		since, isKnown := s.known[tx]
		if !isKnown {
			since = now
		}
		known[tx] = since
	}
	s.known = known
	r, isRegistered := s.last[worker]
	if !isRegistered {
		return -1, true
	}
	switch {
	case isNew && r.renewed:
		r.unaware = slices.DeleteFunc(r.unaware, func(tx string) bool { return !slices.Contains(open, tx) })
		s.last[worker] = r
	case isNew:
		r.unaware = open
		s.last[worker] = r
	}
	next = -1
	for _, tx := range r.unaware {
		since, isOpen := known[tx]
		if !isOpen {
			return -1, true
		}
		look := min(max(now.Sub(since)/4, shortestLook), longestLook)
		if next < 0 || look < next {
			next = look
		}
	}
	return next, false
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
