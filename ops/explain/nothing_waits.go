package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// whyNothingWaits returns the reason for a queue or a kind of which no job is pending, or, unless
// isAll, of which none was found.
func whyNothingWaits(ctx context.Context, q *inquiry, isAll bool) ([]Reason, error) {
	asked := q.question
	if !isAll {
		return []Reason{{ID: "perhaps-waits", Level: ops.Warn, Verdict: "No job was found that waits, but not all could be looked at.",
			Remedy: "see what is not known; ask for a job by its ID"}}, nil
	}
	if asked.Kind != "" {
		if reasons, err := whyUnknownKind(ctx, q); err != nil || len(reasons) > 0 {
			return reasons, err
		}
	}
	if asked.Queue == "" {
		return []Reason{{ID: "nothing-waits", Level: ops.OK, Verdict: "No job of the kind " + asked.Kind + " waits.",
			Evidence: []string{"all pending jobs were looked at"}}}, nil
	}
	return whyQueueWaitsNot(ctx, q)
}

// whyQueueWaitsNot returns the reason for a queue of which no job is pending. The counts of a long
// table may leave out a queue that has only completed jobs.
func whyQueueWaitsNot(ctx context.Context, q *inquiry) ([]Reason, error) {
	asked := q.question
	counts, err := q.Inspector.Counts(ctx)
	if err != nil {
		return nil, err
	}
	var evidence, names []string
	for _, c := range counts {
		names = append(names, c.Queue)
		if c.Queue == asked.Queue {
			evidence = append(evidence, fmt.Sprintf("%s: %s", c.Status, about(c)))
		}
	}
	if len(evidence) == 0 {
		if evidence, err = listTraces(ctx, q); err != nil {
			return nil, err
		}
	}
	if len(evidence) > 0 {
		of := "of the queue " + asked.Queue
		if asked.Kind != "" {
			of = "of the kind " + asked.Kind + " in the queue " + asked.Queue
		}
		return []Reason{{ID: "nothing-waits", Level: ops.OK, Verdict: "No job " + of + " waits.", Evidence: evidence}}, nil
	}
	r := Reason{ID: "empty-queue", Level: ops.Warn, Verdict: "No job of the queue " + asked.Queue + " is known.",
		Evidence: []string{"looked at the counts, at the newest jobs and at the statistics of the runs"},
		Remedy:   "look at how the program that enqueues spells the queue"}
	if near := reader.Nearest(asked.Queue, names); near != "" {
		r.Evidence = append(r.Evidence, "queues with similar names: "+near)
	} else if len(names) > 0 {
		r.Evidence = append(r.Evidence, "queues with jobs: "+words.Enumerate(slices.Compact(names)))
	}
	return []Reason{r}, nil
}

// listTraces returns what is known of jobs that the queue has had: its newest one, and its runs.
func listTraces(ctx context.Context, q *inquiry) (traces []string, err error) {
	page, _, err := q.Inspector.Jobs(ctx, queue.Filter{Queue: q.question.Queue, Limit: 1, Bare: true})
	if err != nil {
		return nil, err
	}
	if len(page) > 0 {
		traces = append(traces, fmt.Sprintf("its newest job, %d, is %s", page[0].ID, page[0].Status))
	}
	runs, err := q.Stats(ctx, queue.StatsFilter{Queue: q.question.Queue, From: time.Now().Add(-driver.StatsKept)})
	if _, err := q.tryOrNote(ctx, "which queues have run", err); err != nil {
		return nil, err
	}
	var n int64
	for _, s := range runs {
		n += s.Done + s.Failed + s.Dead + s.Lost
	}
	if n > 0 {
		traces = append(traces, words.Count(n, "run")+" in the last two days")
	}
	return traces, nil
}

// about returns a number of jobs, and says so if the backend has estimated it.
func about(c queue.StatusCount) string {
	if c.Exact {
		return words.Count(c.Jobs, "job")
	}
	return "about " + words.Count(c.Jobs, "job")
}

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
	if near := plain.Nearest(kind, slices.Sorted(maps.Keys(known))); len(near) > 0 {
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
