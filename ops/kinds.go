package ops

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/spelling"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// unknownKind returns the reason for a kind that no recent job, no worker and no schedule has. It
// is probably misspelt. There is none if the kind is known.
func (f *facts) unknownKind(ctx context.Context) ([]Reason, error) {
	kind := f.question.Kind
	if page, _, err := f.inspector.Jobs(ctx, queue.Filter{Kind: kind, Limit: 1, Bare: true}); err != nil || len(page) > 0 {
		return nil, err
	}
	known, err := f.kinds(ctx)
	if err != nil || known[kind] {
		return nil, err
	}
	r := Reason{ID: "unknown-kind", Level: Warn, Verdict: "No job of the kind " + kind + " is known.",
		Evidence: []string{"looked at the newest jobs, at the statistics of the runs, at the workers and at the schedules"},
		Remedy:   "look at how the program that enqueues spells the kind"}
	if near := spelling.Nearest(kind, slices.Sorted(maps.Keys(known))); len(near) > 0 {
		r.Evidence = append(r.Evidence, "kinds with similar names: "+strings.Join(near, ", "))
	}
	return []Reason{r}, nil
}

// kinds returns the kinds of the newest jobs of each status, of the runs that were counted, of the
// workers and of the schedules.
func (f *facts) kinds(ctx context.Context) (map[string]bool, error) {
	known := make(map[string]bool)
	for _, status := range []queue.Status{"", queue.StatusPending, queue.StatusRunning, queue.StatusDead, queue.StatusHeld, queue.StatusCancelled} {
		page, _, err := f.inspector.Jobs(ctx, queue.Filter{Status: status, Limit: 1000, Bare: true})
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			known[r.Kind] = true
		}
	}
	if statistician, ok := driver.As[driver.Statistician](f.queue); ok {
		list, err := statistician.Stats(ctx, queue.StatsFilter{From: time.Now().Add(-driver.StatsKept), ByKind: true})
		if _, err := f.tryOrNote(ctx, "which kinds have run", err); err != nil {
			return nil, err
		}
		for _, s := range list {
			known[s.Kind] = true
		}
	}
	if err := f.readWorkers(ctx); err != nil {
		return nil, err
	}
	for _, w := range f.workers {
		for _, kind := range w.Kinds {
			known[kind] = true
		}
	}
	if scheduler, ok := driver.As[driver.Scheduler](f.queue); ok {
		list, err := scheduler.Schedules(ctx)
		if _, err := f.tryOrNote(ctx, "which kinds the schedules enqueue", err); err != nil {
			return nil, err
		}
		for _, s := range list {
			known[s.Job.Kind] = true
		}
	}
	return known, nil
}
