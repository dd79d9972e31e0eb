package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// ruleSet are the rules of all queues and groups.
type ruleSet []queue.Rule

// takesTurns reports whether the groups of the queue take turns. See queue.Rule.
func (r ruleSet) takesTurns(name string) bool {
	return slices.ContainsFunc(r, func(one queue.Rule) bool {
		return one.Queue == name && (one.Group != "" || one.PerGroup != 0 || one.Share != 0 || one.GroupRate.Jobs != 0)
	})
}

// readRateWaits returns what rates of a queue have left: of groups, and of the queue for "". It is
// nil if this is not known, which is noted.
func readRateWaits(ctx context.Context, q *inquiry, name string, groups ...string) (map[string]driver.RateWait, error) {
	what := fmt.Sprintf("whether the rates of the queue %s have tokens left", name)
	list, err := q.RateWaits(ctx, name, groups...)
	if _, isOther := errors.AsType[*queue.InvalidError](err); isOther || errors.Is(err, reader.ErrNotTold) { // a router may have backends of both kinds
		if note := what + ": this backend does not tell"; !slices.Contains(q.unknown, note) {
			q.unknown = append(q.unknown, note)
		}
		return nil, nil
	}
	if ok, err := q.tryOrNote(ctx, what, err); !ok {
		return nil, err
	}
	waits := make(map[string]driver.RateWait)
	for _, w := range list {
		waits[w.Group] = w
	}
	return waits, nil
}

// groupRate returns the rate of a group of a queue.
func (r ruleSet) groupRate(name, group string) queue.Rate {
	if own := r.find(name, group).GroupRate; group != "" && own.Jobs != 0 {
		return own
	}
	return r.find(name, "").GroupRate
}

// each returns how long the rate takes to fill in a token.
func each(rate queue.Rate) time.Duration {
	return (cmp.Or(rate.Per, time.Second) + time.Duration(rate.Jobs) - 1) / time.Duration(rate.Jobs)
}

// burst returns how many tokens the rate keeps at most.
func burst(rate queue.Rate) int {
	perTenth := int64(rate.Jobs) * int64(100*time.Millisecond) / int64(cmp.Or(rate.Per, time.Second))
	return cmp.Or(rate.Burst, max(int(perTenth), 1))
}

// readRules reads the rules, if the backend keeps some.
func readRules(ctx context.Context, q *inquiry) error {
	rules, err := q.Rules(ctx)
	if ok, err := q.tryOrNote(ctx, "the rules of the queue", err); !ok {
		return err
	}
	q.rules = rules
	return nil
}

// findRule returns the rule of a group of the job's queue, or of the queue for "".
func findRule(q *inquiry, group string) queue.Rule { return q.rules.find(q.job.Queue, group) }

// Find returns the rule of a group of a queue, or of the queue for "".
func (r ruleSet) find(name, group string) queue.Rule {
	for _, one := range r {
		if one.Queue == name && one.Group == group {
			return one
		}
	}
	return queue.Rule{}
}

// perGroup returns how many jobs of the group may run at once; 0 or less means any number.
func (r ruleSet) perGroup(name, group string) int {
	if own := r.find(name, group).PerGroup; group != "" && own != 0 {
		return own
	}
	return r.find(name, "").PerGroup
}

// countRunning counts running jobs up to most, and says which have run longest.
func countRunning(ctx context.Context, q *inquiry, filter queue.Filter, most int) (n int, longest []string, err error) {
	filter.Status = queue.StatusRunning
	var oldest []queue.Record
	_, err = q.list(ctx, filter, func(r queue.Record) bool {
		n++
		oldest = append(oldest, r)
		slices.SortFunc(oldest, func(a, b queue.Record) int { return a.StartedAt.Compare(b.StartedAt) })
		oldest = oldest[:min(len(oldest), 3)]
		return n < most
	})
	for _, r := range oldest {
		longest = append(longest, fmt.Sprintf("job %d of the worker %s has been running for %v", r.ID, r.Worker, words.Short(max(q.at.Sub(r.StartedAt), 0))))
	}
	return n, append(longest, words.More(n-3)...), err
}
