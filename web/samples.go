package web

import (
	"context"
	"slices"
	"sync"

	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// pageSize is how many jobs a page lists.
	pageSize = 50
	// shownFacts is how many jobs the verdict counts of a sort.
	shownFacts = 100
	// newestJobs is how many jobs the page of kinds looks at.
	newestJobs = 1000
	// maxSamples is how many samples of one sort are kept, such as lists of jobs with different
	// filters.
	maxSamples = 64
)

// samples is what all sessions share. A field is nil if the backend lacks the capability.
type samples struct {
	// Facts: the verdict rests on them.
	backlogs *sampled[[]driver.Backlog]
	paused   *sampled[[]string]
	workers  *sampled[[]driver.WorkerRecord]
	expired  *sampled[listing] // running jobs whose lease has expired
	held     *sampled[listing]
	dead     *sampled[listing] // those that were enqueued last

	counts    *sampled[[]queue.StatusCount]
	rules     *sampled[[]queue.Rule]
	schedules *sampled[[]queue.ScheduleRecord]
	runs      *sampled[map[string][]driver.RunningJob] // by worker
	doctor    *sampled[doctor.Report]
	hour      *sampled[[]queue.StatsRecord]         // by minute
	hourKinds *sampled[[]queue.StatsRecord]         // by kind, with histograms
	kindHours *several[string, []queue.StatsRecord] // of one kind, by minute
	failures  *several[string, failures]            // of one kind, or of all for ""
	lists     *several[queue.Filter, listing]
	previews  *several[queue.Filter, preview]
	answers   *several[int64, explain.Answer] // why a job does not run, by its ID
}

// listing is a page of jobs, without what only a job's own page shows.
type listing struct {
	Jobs []queue.Record
	Next int64 // the Before of the next page, or 0
}

func newSamples(h *Handler) *samples {
	s := &samples{counts: newSampled(h, "counts", h.source.inspector.Counts)}
	list := func(f queue.Filter) func(context.Context) (listing, error) {
		f.NoPayload = true
		return func(ctx context.Context) (listing, error) {
			jobs, next, err := h.source.inspector.Jobs(ctx, f)
			return listing{jobs, next}, err
		}
	}
	s.lists = newSeveral(func(f queue.Filter) *sampled[listing] { return newSampled(h, "jobs", list(f)) })
	s.expired = newFact(h, "expired leases", list(queue.Filter{Status: queue.StatusRunning, Expired: true, Limit: shownFacts, Bare: true}))
	s.held = newFact(h, "held jobs", list(queue.Filter{Status: queue.StatusHeld, Limit: shownFacts, Bare: true}))
	s.dead = newFact(h, "dead jobs", list(queue.Filter{Status: queue.StatusDead, Limit: 5}))
	s.previews = newSeveral(func(f queue.Filter) *sampled[preview] {
		p := newSampled(h, "preview", func(ctx context.Context) (preview, error) { return h.source.readPreview(ctx, f) })
		p.longest = previewLongest
		return p
	})
	s.failures = newSeveral(func(kind string) *sampled[failures] {
		return newSampled(h, "errors", func(ctx context.Context) (failures, error) { return h.source.readFailures(ctx, kind) })
	})
	if b := h.source.inspector; b != nil {
		s.backlogs = newFact(h, "backlogs", b.Backlogs)
	}
	if r := h.source.ruler; r != nil {
		s.rules = newSampled(h, "rules", r.Rules)
	}
	if p := h.source.pauser; p != nil {
		s.paused = newFact(h, "paused kinds", p.PausedKinds)
	}
	if c := h.source.scheduler; c != nil {
		s.schedules = newSampled(h, "schedules", c.Schedules)
	}
	if f := h.source.fleet; f != nil {
		s.workers = newFact(h, "workers", f.Workers)
		s.runs = newSampled(h, "runs", h.source.readRuns)
	}
	if h.source.statistician != nil {
		read := func(f queue.StatsFilter) *sampled[[]queue.StatsRecord] {
			r := newSampled(h, "statistics", (&minutes{source: h.source, filter: f}).read)
			r.interval = statsInterval
			return r
		}
		s.hour = read(queue.StatsFilter{})
		s.hourKinds = newSampled(h, "statistics", func(ctx context.Context) ([]queue.StatsRecord, error) {
			return h.source.lastHour(ctx, queue.StatsFilter{ByKind: true, Times: true})
		})
		s.hourKinds.interval = timesInterval
		s.kindHours = newSeveral(func(kind string) *sampled[[]queue.StatsRecord] { return read(queue.StatsFilter{Kind: kind}) })
	}
	if q := h.source.queue; q != nil {
		s.doctor = newSampled(h, "health", func(ctx context.Context) (doctor.Report, error) {
			return doctor.Examine(ctx, q, doctor.Options{Tool: true})
		})
		s.doctor.interval, s.doctor.timeout = doctorInterval, doctorTimeout
		s.answers = newSeveral(func(id int64) *sampled[explain.Answer] {
			a := newSampled(h, "explain", func(ctx context.Context) (explain.Answer, error) {
				return explain.Job(ctx, q, explain.Question{ID: id})
			})
			a.timeout = explainTimeout
			return a
		})
	}
	return s
}

func newSampled[T any](h *Handler, name string, read func(context.Context) (T, error)) *sampled[T] {
	return &sampled[T]{h: h, name: name, interval: minInterval, timeout: callTimeout, read: read}
}

// newFact returns a sample of something that is cheap. It is read after minInterval, whatever the
// load, and gives up after factTimeout.
func newFact[T any](h *Handler, name string, read func(context.Context) (T, error)) *sampled[T] {
	s := newSampled(h, name, read)
	s.isFact, s.timeout = true, factTimeout
	return s
}

// several are samples of one sort, by what they are about. It keeps those that were asked for last.
type several[K comparable, T any] struct {
	open func(K) *sampled[T]

	mu    sync.Mutex
	all   map[K]*sampled[T]
	order []K // of all: the one that was asked for last is the last
}

func newSeveral[K comparable, T any](open func(K) *sampled[T]) *several[K, T] {
	return &several[K, T]{open: open, all: make(map[K]*sampled[T])}
}

// of returns the sample about key.
func (s *several[K, T]) of(key K) *sampled[T] {
	if s == nil { // the backend lacks the capability
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.order, key); i >= 0 {
		s.order = slices.Delete(s.order, i, i+1)
	} else if len(s.order) == maxSamples {
		delete(s.all, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
	s.order = append(s.order, key)
	if s.all[key] == nil {
		s.all[key] = s.open(key)
	}
	return s.all[key]
}
