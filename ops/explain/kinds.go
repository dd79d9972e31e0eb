package explain

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/spelling"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// whyUnknownKind returns the reason for a kind that no recent job, no worker and no schedule has.
// It is probably misspelt. There is none if the kind is known.
func whyUnknownKind(ctx context.Context, q *inquiry) ([]Reason, error) {
	kind := q.question.Kind
	if page, _, err := q.Inspector.Jobs(ctx, queue.Filter{Kind: kind, Limit: 1, Bare: true}); err != nil || len(page) > 0 {
		return nil, err
	}
	known, err := listKinds(ctx, q)
	if err != nil || known[kind] {
		return nil, err
	}
	r := Reason{ID: "unknown-kind", Level: ops.Warn, Verdict: "No job of the kind " + kind + " is known.",
		Evidence: []string{"looked at the newest jobs, at the statistics of the runs, at the workers and at the schedules"},
		Remedy:   "look at how the program that enqueues spells the kind"}
	if near := spelling.Nearest(kind, slices.Sorted(maps.Keys(known))); len(near) > 0 {
		r.Evidence = append(r.Evidence, "kinds with similar names: "+strings.Join(near, ", "))
	}
	return []Reason{r}, nil
}

// listKinds returns the kinds of the newest jobs of each status, of the runs that were counted, of
// the workers and of the schedules.
func listKinds(ctx context.Context, q *inquiry) (map[string]bool, error) {
	known := make(map[string]bool)
	for _, status := range []queue.Status{"", queue.StatusPending, queue.StatusRunning, queue.StatusDead, queue.StatusHeld, queue.StatusCancelled} {
		page, _, err := q.Inspector.Jobs(ctx, queue.Filter{Status: status, Limit: 1000, Bare: true})
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			known[r.Kind] = true
		}
	}
	runs, err := q.Stats(ctx, queue.StatsFilter{From: time.Now().Add(-driver.StatsKept), ByKind: true})
	if _, err := q.tryOrNote(ctx, "which kinds have run", err); err != nil {
		return nil, err
	}
	for _, s := range runs {
		known[s.Kind] = true
	}
	if err := readWorkers(ctx, q); err != nil {
		return nil, err
	}
	for _, w := range q.workers {
		for _, kind := range w.Kinds {
			known[kind] = true
		}
	}
	schedules, err := q.Schedules(ctx)
	if _, err := q.tryOrNote(ctx, "which kinds the schedules enqueue", err); err != nil {
		return nil, err
	}
	for _, s := range schedules {
		known[s.Job.Kind] = true
	}
	return known, nil
}
