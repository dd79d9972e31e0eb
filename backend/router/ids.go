package router

import (
	"errors"
	"fmt"
	"sync"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// idSpan is how far the IDs of a backend are from those of the next one. It is a power of ten, so
	// that a person can read an ID.
	idSpan = 1_000_000_000_000_000_000
	// maxBackends is how many backends fit into an int64.
	maxBackends = 9
)

// outward returns the router's ID for an ID of the backend.
func (t *target) outward(id int64) int64 { return t.number*idSpan + id }

// isOwn reports whether an ID of the backend can be told from those of others.
func (t *target) isOwn(id int64) bool { return id < idSpan && (id > 0 || t.number == 0) }

// ofID returns the backend that an ID names, and the backend's own ID. It returns nil if there is
// no such backend.
func (q *Queue) ofID(id int64) (t *target, own int64) {
	if id < idSpan {
		return q.home, id // 0 and below, too: jobs that SQL has written
	}
	if number := id / idSpan; number < int64(len(q.targets)) {
		return q.targets[number], id % idSpan
	}
	return nil, 0
}

// part is what a call asks of one backend: its own view of some of the caller's jobs.
type part[T any] struct {
	*target
	items []T
	own   []*queue.Job // as the backend knows them, one for each item
	jobs  []*queue.Job // as the caller has passed them
}

// byID shares items out to the backends that the IDs of their jobs name. unknown are the jobs whose
// ID names no backend.
func byID[T any](q *Queue, items []T, job func(T) *queue.Job) (parts []*part[T], unknown []*queue.Job) {
	byNumber := make([]*part[T], len(q.targets))
	for _, item := range items {
		j := job(item)
		t, own := q.ofID(j.ID)
		if t == nil {
			unknown = append(unknown, j)
			continue
		}
		p := byNumber[t.number]
		if p == nil {
			p = &part[T]{target: t}
			byNumber[t.number], parts = p, append(parts, p)
		}
		p.items, p.jobs, p.own = append(p.items, item), append(p.jobs, j), append(p.own, withID(j, own))
	}
	return parts, unknown
}

// withID returns the job if it has that ID, and otherwise a copy that has it.
func withID(j *queue.Job, id int64) *queue.Job {
	if j.ID == id {
		return j
	}
	own := *j
	own.ID = id
	return &own
}

// callers returns the caller's jobs for some of the backend's view of them.
func (p *part[T]) callers(own []*queue.Job) (jobs []*queue.Job) {
	if len(own) == 0 {
		return nil
	}
	caller := make(map[*queue.Job]*queue.Job, len(p.own))
	for i, j := range p.own {
		caller[j] = p.jobs[i]
	}
	for _, j := range own {
		if c := caller[j]; c != nil {
			jobs = append(jobs, c)
		}
	}
	return jobs
}

// atOnce calls f for each part, all at the same time if there are several, and returns when all
// calls have.
func atOnce[P any](parts []P, f func(P)) {
	if len(parts) == 1 {
		f(parts[0])
		return
	}
	var all sync.WaitGroup
	for _, p := range parts {
		all.Go(func() { f(p) })
	}
	all.Wait()
}

// failures collects the errors of the parts of a call.
type failures struct {
	mu   sync.Mutex
	errs []error
	jobs []*queue.Job // that the errors concern

	whole  bool                  // an error concerns the call, not a backend
	within bool                  // a backend has failed for some of its jobs only
	locked []*driver.LockedError // the errors that are no more than that
}

// add notes that a part has failed for some jobs.
func (f *failures) add(err error, jobs []*queue.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, isInvalid := errors.AsType[*queue.InvalidError](err); isInvalid {
		f.whole = true
	}
	if l, ok := errors.AsType[*driver.LockedError](err); ok {
		f.locked = append(f.locked, l)
	}
	f.within = f.within || isA[*driver.PartialError](err)
	f.errs, f.jobs = append(f.errs, err), append(f.jobs, jobs...)
}

// err returns the error of a call that has asked that many backends out of several.
func (f *failures) err(operation string, isOnly bool) error {
	switch {
	case len(f.errs) == 0:
		return nil
	case len(f.locked) == len(f.errs):
		return &driver.LockedError{Jobs: f.jobs, Err: errors.Join(f.errs...)}
	case f.whole || isOnly && !f.within:
		return errors.Join(f.errs...)
	}
	return &driver.PartialError{Jobs: f.jobs, Err: fmt.Errorf("router: %s: %w", operation, errors.Join(f.errs...))}
}
