package web

import (
	"context"
	"sync"

	"github.com/errandhq/errand/queue"
)

const (
	// pageSize is how many jobs a page lists.
	pageSize = 50
	// newestJobs is how many jobs the page of kinds looks at.
	newestJobs = 1000
	// maxLists is how many lists of jobs, each with a filter of its own, are kept.
	maxLists = 64
)

// samples is what all sessions share. A field is nil if the backend lacks the capability.
type samples struct {
	h         *Handler
	counts    *sampled[[]queue.Count]
	backlogs  *sampled[[]queue.Backlog]
	rules     *sampled[[]queue.Rule]
	paused    *sampled[[]string]
	schedules *sampled[[]queue.ScheduleRecord]

	mu    sync.Mutex
	lists map[queue.Filter]*sampled[listing]
	order []queue.Filter // of lists: the one that was asked for last is the last
}

// listing is a page of jobs, without what only a job's own page shows.
type listing struct {
	Jobs []queue.Record
	Next int64 // the Before of the next page, or 0
}

func newSamples(h *Handler) *samples {
	s := &samples{h: h, lists: make(map[queue.Filter]*sampled[listing])}
	s.counts = newSampled(h, "counts", h.source.inspector.Counts)
	if b := h.source.backlogger; b != nil {
		s.backlogs = newSampled(h, "backlogs", b.Backlogs)
	}
	if r := h.source.ruler; r != nil {
		s.rules = newSampled(h, "rules", r.Rules)
	}
	if p := h.source.pauser; p != nil {
		s.paused = newSampled(h, "paused kinds", p.PausedKinds)
	}
	if c := h.source.scheduler; c != nil {
		s.schedules = newSampled(h, "schedules", c.Schedules)
	}
	return s
}

func newSampled[T any](h *Handler, name string, read func(context.Context) (T, error)) *sampled[T] {
	return &sampled[T]{h: h, name: name, read: read}
}

// list returns the jobs that f chooses. It keeps no payloads.
func (s *samples) list(f queue.Filter) *sampled[listing] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lists[f]; l != nil {
		s.moveToEnd(f)
		return l
	}
	if len(s.lists) == maxLists {
		delete(s.lists, s.order[0])
		s.order = s.order[1:]
	}
	l := newSampled(s.h, "jobs", func(ctx context.Context) (listing, error) {
		jobs, next, err := s.h.source.inspector.Jobs(ctx, f)
		for i := range jobs {
			jobs[i].Payload, jobs[i].Headers = nil, nil
		}
		return listing{jobs, next}, err
	})
	s.lists[f] = l
	s.order = append(s.order, f)
	return l
}

// moveToEnd notes that the list of f was asked for. The caller holds s.mu.
func (s *samples) moveToEnd(f queue.Filter) {
	for i, other := range s.order {
		if other == f {
			s.order = append(append(s.order[:i:i], s.order[i+1:]...), f)
			return
		}
	}
}
