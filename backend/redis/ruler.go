package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
)

// ruleChange is the arguments of lua/ruler.lua for a rule.
type ruleChange struct {
	queue, group, action, text string
}

// SetRules implements [driver.Ruler]. The rules of one queue are set as a whole or not at all.
// Those of a call for several queues are not: after an error some may be set. With a Spread above
// 1, a rule can pause and have an OnDead, and all else is an [*queue.InvalidError]: each partition
// would count by itself. db must be nil.
func (b *Backend) SetRules(ctx context.Context, db queue.DB, rules ...queue.Rule) error {
	type place struct{ queue, group string }
	last := make(map[place]int) // the last rule of each group
	for i, r := range rules {
		if err := b.checkRule(r); err != nil {
			return failed("set rules", err)
		}
		last[place{cmp.Or(r.Queue, queue.DefaultQueue), r.Group}] = i
	}
	var changes []ruleChange
	for i, r := range rules {
		r.Queue = cmp.Or(r.Queue, queue.DefaultQueue)
		if last[place{r.Queue, r.Group}] != i {
			continue
		}
		text, err := ruleText(r)
		if err != nil {
			return failed("set rules", err)
		}
		changes = append(changes, ruleChange{r.Queue, r.Group, "set", text})
	}
	if err := refuse(db); err != nil {
		return failed("set rules", err)
	}
	_, err := b.changeRules(ctx, "set rules", changes...)
	return err
}

// checkRule returns an [*queue.InvalidError] for a rule that cannot be kept.
func (b *Backend) checkRule(r queue.Rule) error {
	if err := r.Check(); err != nil || b.opts.Spread == 1 {
		return err
	}
	for _, f := range []struct {
		name  string
		isSet bool
	}{
		{"Running", r.Running != 0}, {"PerGroup", r.PerGroup != 0}, {"Share", r.Share != 0},
		{"Rate", r.Rate != queue.Rate{}}, {"GroupRate", r.GroupRate != queue.Rate{}},
	} {
		if f.isSet {
			return &queue.InvalidError{Field: f.name, Problem: fmt.Sprintf("queues are in %d partitions, and each could only count its own jobs: it takes a Spread of 1", b.opts.Spread)}
		}
	}
	return nil
}

// changeRules changes rules in all partitions of their queues. It returns how many pauses have
// changed, counted once for each partition.
func (b *Backend) changeRules(ctx context.Context, operation string, changes ...ruleChange) (pauses int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, failed(operation, err)
	}
	args := make(map[int][]string)
	for _, c := range changes {
		for i := range b.opts.Spread {
			p := b.partition(c.queue, i)
			args[p] = append(args[p], c.queue, c.group, c.action, c.text)
		}
	}
	var partitions []int
	var all [][]string
	for p, a := range args {
		partitions, all = append(partitions, p), append(all, a)
	}
	for _, r := range b.callAll(ctx, "rule", partitions, all) {
		n, err := r.AsInt64()
		if err != nil {
			return pauses, failed(operation, err)
		}
		pauses += n
	}
	return pauses, nil
}

// storedRule is a rule as lua/rules.lua reads it.
type storedRule struct {
	Paused    bool             `json:"paused,omitempty"`
	Running   int              `json:"running,omitempty"`
	PerGroup  int              `json:"perGroup,omitempty"`
	Share     int              `json:"share,omitempty"`
	Rate      *storedRate      `json:"rate,omitempty"`
	GroupRate *storedRate      `json:"groupRate,omitempty"`
	OnDead    queue.DeadPolicy `json:"onDead,omitempty"`
	Text      string           `json:"text,omitempty"` // the rule in JSON, without Queue, Group and Paused
}

// storedRate is a rate as lua/rates.lua counts it. Both are 0 if there is no limit.
type storedRate struct {
	Each  int64 `json:"each"` // how long a token takes, in nanoseconds
	Burst int64 `json:"burst"`
}

// ruleText returns a rule as it is stored.
func ruleText(r queue.Rule) (string, error) {
	s := storedRule{
		Paused: r.Paused, Running: r.Running, PerGroup: r.PerGroup, Share: r.Share,
		Rate: storedRateOf(r.Rate), GroupRate: storedRateOf(r.GroupRate), OnDead: r.OnDead,
	}
	if r.Queue, r.Group, r.Paused = "", "", false; !r.IsZero() {
		text, err := json.Marshal(r)
		if err != nil {
			return "", err
		}
		s.Text = string(text)
	}
	text, err := json.Marshal(s)
	return string(text), err
}

// storedRateOf returns nil for the zero value, which leaves it to the queue's rule.
func storedRateOf(r queue.Rate) *storedRate {
	if r == (queue.Rate{}) {
		return nil
	}
	each, burst := limits.Tokens(r)
	return &storedRate{Each: int64(each), Burst: burst}
}

// readRule reads a rule of the answer of lua/ruler.lua.
func readRule(m *rueidis.RedisMessage) (r queue.Rule, err error) {
	in := readerOf(m)
	name, group, text, paused := in.text(), in.text(), in.text(), in.int() == 1
	if in.err != nil {
		return r, in.err
	}
	if text != "" {
		err = json.Unmarshal([]byte(text), &r)
	}
	r.Queue, r.Group, r.Paused = name, group, paused
	return r, err
}

// Rules implements [driver.Ruler]. It asks all partitions.
func (b *Backend) Rules(ctx context.Context) ([]queue.Rule, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("list rules", err)
	}
	answers, err := messages(b.onEach(ctx, "rules"))
	if err != nil {
		return nil, failed("list rules", err)
	}
	var all []queue.Rule
	for p := range answers {
		rows, err := answers[p].ToArray()
		if err != nil {
			return nil, failed("list rules", err)
		}
		for i := range rows {
			r, err := readRule(&rows[i])
			if err != nil {
				return nil, failed("list rules", err)
			}
			if b.firstOf(r.Queue) == p { // the others have the same
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b queue.Rule) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group))
	})
	return all, nil
}
