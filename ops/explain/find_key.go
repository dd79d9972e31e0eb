package explain

import (
	"context"
	"fmt"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// findByKey reads the live job that has the key, or else the one that had it last.
func findByKey(ctx context.Context, q *inquiry) ([]Reason, error) {
	var newest *queue.Record
	var live []int64
	see := func(r queue.Record) bool {
		if isLive(r) {
			live = append(live, r.ID)
		}
		if newest == nil || newest.ID < r.ID {
			newest = &r
		}
		return true
	}
	if q.Server != nil {
		if ids, err := listLiveKeys(ctx, q, q.question.Queue, q.question.Key); err != nil {
			return nil, err
		} else if len(ids) > 0 {
			return nil, readOne(ctx, q, ids)
		}
	}
	isAll, err := q.list(ctx, queue.Filter{Key: q.question.Key, Queue: q.question.Queue}, see)
	if err != nil {
		return nil, err
	}
	switch {
	case len(live) > 0:
		return nil, readOne(ctx, q, live)
	case newest != nil:
		if err := readJob(ctx, q, newest.ID); err != nil {
			return nil, err
		}
		return withSchedules(ctx, q, nil)
	}
	r := Reason{ID: "no-such-key", Level: ops.Warn, Verdict: fmt.Sprintf("No job has the key %q.", q.question.Key), Evidence: []string{
		"none was committed, or it has ended and was pruned"}, Remedy: "look at the program that enqueues it, and at the spelling of the key and the queue"}
	if !isAll {
		r.Evidence = append(r.Evidence, "all live jobs were looked at, and the newest of those that have ended")
	}
	if q.Server == nil {
		return withSchedules(ctx, q, []Reason{r})
	}
	reasons, err := whyHidden(ctx, q, "the job with the key")
	if err == nil {
		reasons, err = withSchedules(ctx, q, append(reasons, r))
	}
	if err != nil {
		return nil, err
	}
	return withUncommitted(ctx, q, reasons)
}

// readOne reads the newest of the live jobs that have the key, each in a queue of its own, and
// notes the others.
func readOne(ctx context.Context, q *inquiry, ids []int64) error {
	newest := slices.Max(ids)
	var others []string
	for _, id := range ids {
		if id != newest {
			others = append(others, q.Command("explain", id))
		}
	}
	if len(others) > 0 {
		q.unknown = append(q.unknown, fmt.Sprintf("which job is meant: jobs of several queues have the key, and this is the newest. The others: %s", words.Enumerate(others)))
	}
	return readJob(ctx, q, newest)
}
