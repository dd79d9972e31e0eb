package explain

import (
	"context"
	"fmt"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// whyPaused returns the pauses that hold for the job.
func whyPaused(ctx context.Context, q *inquiry) (reasons []Reason, err error) {
	j := q.job
	if err := readRules(ctx, q); err != nil {
		return nil, err
	}
	for _, r := range q.rules {
		switch {
		case !r.Paused || r.Queue != j.Queue:
		case r.Group == "":
			by, err := namePauser(ctx, q, queue.Target{Queue: j.Queue})
			if err != nil {
				return nil, err
			}
			reasons = append(reasons, Reason{ID: "queue-paused", Level: ops.Warn, Verdict: "The queue " + j.Queue + " is paused.", Evidence: by, Remedy: q.Command("queues", "resume", j.Queue)})
		case r.Group == j.Group:
			by, err := namePauser(ctx, q, queue.Target{Group: j.Group, InQueue: j.Queue})
			if err != nil {
				return nil, err
			}
			reasons = append(reasons, Reason{ID: "group-paused", Level: ops.Warn, Verdict: fmt.Sprintf("The group %q of the queue %s is paused.", j.Group, j.Queue), Evidence: by,
				Remedy: q.Command("queues", "resume", j.Queue, "--group", j.Group)})
		}
	}
	kinds, err := q.PausedKinds(ctx)
	if ok, err := q.tryOrNote(ctx, "whether the kind is paused", err); !ok {
		return reasons, err
	}
	q.pauses = kinds
	if slices.Contains(kinds, j.Kind) {
		by, err := namePauser(ctx, q, queue.Target{Kind: j.Kind})
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, Reason{ID: "kind-paused", Level: ops.Warn, Verdict: "The kind " + j.Kind + " is paused.", Evidence: by, Remedy: q.Command("kinds", "resume", j.Kind)})
	}
	return reasons, nil
}

// raiseLimit begins the remedy of a limit. A command follows.
const raiseLimit = "wait, or raise the limit, which lasts until a program sets its rules again: "

// whyLimited returns the limits that are reached, of the queue and of the job's group.
func whyLimited(ctx context.Context, q *inquiry) (reasons []Reason, err error) {
	j := q.job
	if n := findRule(q, "").Running; n > 0 {
		runs, oldest, err := countRunning(ctx, q, queue.Filter{Queue: j.Queue}, n)
		if err != nil {
			return nil, err
		}
		if runs >= n {
			reasons = append(reasons, Reason{ID: "queue-limit", Level: ops.Warn, Verdict: fmt.Sprintf("The queue %s is at its limit of %s.", j.Queue, words.Count(n, "running job")),
				Evidence: oldest, Remedy: raiseLimit + q.Command("queues", "limit", j.Queue, "--running", 2*n)})
		}
	}
	if perGroup := q.rules.perGroup(j.Queue, j.Group); j.Group != "" && perGroup > 0 {
		runs, oldest, err := countRunning(ctx, q, queue.Filter{Queue: j.Queue, Group: j.Group}, perGroup)
		if err != nil {
			return nil, err
		}
		if runs >= perGroup {
			raise := q.Command("queues", "limit", j.Queue, "--per-group", 2*perGroup)
			if findRule(q, j.Group).PerGroup != 0 {
				raise = q.Command("queues", "limit", j.Queue, "--group", j.Group, "--per-group", 2*perGroup)
			}
			reasons = append(reasons, Reason{ID: "group-limit", Level: ops.Warn, Verdict: fmt.Sprintf("The group %q of the queue %s is at its limit of %s.", j.Group, j.Queue, words.Count(perGroup, "running job")),
				Evidence: oldest, Remedy: raiseLimit + raise})
		}
	}
	return reasons, nil
}
