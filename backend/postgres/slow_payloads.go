package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Slow payloads.
//
// Problem: a payload that takes longer on the link than a claim may take would be claimed, not read
// and released for ever, and the jobs behind it would never run.
// Rule: its job is released with a delay that grows with each failure, and the claim's error is a
// [driver.SlowError], after which the worker gives claims more time. While such jobs are known,
// long payloads are read one by one, and a slow one only at the head of its claim.
// Bounds: a job is forgotten when its payload is read, or slowMemory after the last failure.
// Shown by: TestSlowPayload.

const (
	// slowMemory is longer than the longest delay.
	slowMemory = 2 * time.Hour
	// shortPayload is how many bytes a payload may take in the table to come with its claim while
	// slow payloads are known.
	shortPayload = 64 << 10
)

// slowPayloads are the jobs whose payloads this process could not read in time.
type slowPayloads struct {
	mu   sync.Mutex
	jobs map[int64]slowPayload // by ID
}

type slowPayload struct {
	failures int
	last     time.Time
}

// has reports whether the payload of that job could not be read in time.
func (s *slowPayloads) has(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[id].failures > 0
}

// areKnown reports whether there are such jobs. It forgets old ones.
func (s *slowPayloads) areKnown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, job := range s.jobs {
		if time.Since(job.last) > slowMemory {
			delete(s.jobs, id)
		}
	}
	return len(s.jobs) > 0
}

// add records a failure, and returns for how long to release the job.
func (s *slowPayloads) add(id int64) (delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs == nil {
		s.jobs = make(map[int64]slowPayload)
	}
	job := slowPayload{s.jobs[id].failures + 1, time.Now()}
	s.jobs[id] = job
	return queue.Backoff(job.failures)
}

// remove forgets a job whose payload was read.
func (s *slowPayloads) remove(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, id)
}

// releaseUnread releases the jobs of a claim whose payloads were not read, because of err or for
// want of room. If they are all of its jobs, and err says that ctx left too little time, the first
// is slow: it is released with a delay, and the error is a [*driver.SlowError].
func (b *Backend) releaseUnread(ctx context.Context, jobs []*queue.Job, all bool, err error) error {
	outcomes := releases(jobs)
	isSlow := all && errors.Is(err, context.DeadlineExceeded)
	if isSlow {
		outcomes[0].Delay = b.slow.add(jobs[0].ID)
	}
	lost := b.release(ctx, outcomes...)
	if !isSlow || slices.Contains(lost, jobs[0]) {
		return err
	}
	return &driver.SlowError{Job: jobs[0], Delay: outcomes[0].Delay, Err: err}
}
