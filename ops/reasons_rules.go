package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// paused returns the pauses that hold for the job.
func (f *facts) paused(ctx context.Context) (reasons []Reason, err error) {
	j := f.job
	if err := f.readRules(ctx); err != nil {
		return nil, err
	}
	for _, r := range f.rules {
		switch {
		case !r.Paused || r.Queue != j.Queue:
		case r.Group == "":
			by, err := f.pauser(ctx, "queue", j.Queue, "")
			if err != nil {
				return nil, err
			}
			reasons = append(reasons, Reason{ID: "queue-paused", Level: Warn, Verdict: "The queue " + j.Queue + " is paused.", Evidence: by, Remedy: f.command("queues", "resume", j.Queue)})
		case r.Group == j.Group:
			by, err := f.pauser(ctx, "queue", j.Queue, j.Group)
			if err != nil {
				return nil, err
			}
			reasons = append(reasons, Reason{ID: "group-paused", Level: Warn, Verdict: fmt.Sprintf("The group %q of the queue %s is paused.", j.Group, j.Queue), Evidence: by,
				Remedy: f.command("queues", "resume", j.Queue, "--group", j.Group)})
		}
	}
	pauser, ok := driver.As[driver.Pauser](f.queue)
	if !ok {
		return reasons, nil
	}
	kinds, err := pauser.PausedKinds(ctx)
	if ok, err := f.tryOrNote(ctx, "whether the kind is paused", err); !ok {
		return reasons, err
	}
	f.pauses = kinds
	if slices.Contains(kinds, j.Kind) {
		by, err := f.pauser(ctx, "kind", j.Kind, "")
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, Reason{ID: "kind-paused", Level: Warn, Verdict: "The kind " + j.Kind + " is paused.", Evidence: by, Remedy: f.command("kinds", "resume", j.Kind)})
	}
	return reasons, nil
}

// readRules reads the rules, if the backend keeps some.
func (f *facts) readRules(ctx context.Context) error {
	ruler, ok := driver.As[driver.Ruler](f.queue)
	if !ok {
		return nil
	}
	rules, err := ruler.Rules(ctx)
	if ok, err := f.tryOrNote(ctx, "the rules of the queue", err); !ok {
		return err
	}
	f.rules = rules
	return nil
}

// raiseLimit begins the remedy of a limit. A command follows.
const raiseLimit = "wait, or raise the limit, which lasts until a program sets its rules again: "

// limited returns the limits that are reached, of the queue and of the job's group.
func (f *facts) limited(ctx context.Context) (reasons []Reason, err error) {
	j := f.job
	if n := f.rule("").Running; n > 0 {
		runs, oldest, err := f.countRunning(ctx, queue.Filter{Queue: j.Queue}, n)
		if err != nil {
			return nil, err
		}
		if runs >= n {
			reasons = append(reasons, Reason{ID: "queue-limit", Level: Warn, Verdict: fmt.Sprintf("The queue %s is at its limit of %s.", j.Queue, count(n, "running job")),
				Evidence: oldest, Remedy: raiseLimit + f.command("queues", "limit", j.Queue, "--running", 2*n)})
		}
	}
	if perGroup := f.perGroup(j.Queue, j.Group); j.Group != "" && perGroup > 0 {
		runs, oldest, err := f.countRunning(ctx, queue.Filter{Queue: j.Queue, Group: j.Group}, perGroup)
		if err != nil {
			return nil, err
		}
		if runs >= perGroup {
			raise := f.command("queues", "limit", j.Queue, "--per-group", 2*perGroup)
			if f.rule(j.Group).PerGroup != 0 {
				raise = f.command("queues", "limit", j.Queue, "--group", j.Group, "--per-group", 2*perGroup)
			}
			reasons = append(reasons, Reason{ID: "group-limit", Level: Warn, Verdict: fmt.Sprintf("The group %q of the queue %s is at its limit of %s.", j.Group, j.Queue, count(perGroup, "running job")),
				Evidence: oldest, Remedy: raiseLimit + raise})
		}
	}
	return reasons, nil
}

// rule returns the rule of a group of the job's queue, or of the queue for "".
func (f *facts) rule(group string) queue.Rule { return f.ruleOf(f.job.Queue, group) }

// ruleOf returns the rule of a group of a queue, or of the queue for "".
func (f *facts) ruleOf(name, group string) queue.Rule {
	for _, r := range f.rules {
		if r.Queue == name && r.Group == group {
			return r
		}
	}
	return queue.Rule{}
}

// perGroup returns how many jobs of the group may run at once; 0 or less means any number.
func (f *facts) perGroup(name, group string) int {
	if own := f.ruleOf(name, group).PerGroup; group != "" && own != 0 {
		return own
	}
	return f.ruleOf(name, "").PerGroup
}

// countRunning counts running jobs up to most, and says which have run longest.
func (f *facts) countRunning(ctx context.Context, filter queue.Filter, most int) (n int, longest []string, err error) {
	filter.Status = queue.StatusRunning
	var oldest []queue.Record
	_, err = f.list(ctx, filter, func(r queue.Record) bool {
		n++
		oldest = append(oldest, r)
		slices.SortFunc(oldest, func(a, b queue.Record) int { return a.StartedAt.Compare(b.StartedAt) })
		oldest = oldest[:min(len(oldest), 3)]
		return n < most
	})
	for _, r := range oldest {
		longest = append(longest, fmt.Sprintf("job %d of the worker %s has been running for %v", r.ID, r.Worker, short(max(f.at.Sub(r.StartedAt), 0))))
	}
	return n, append(longest, more(n-3)...), err
}
