package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
)

// ruleKey is what a rule is for. group is "" for the rule of the queue.
type ruleKey struct{ queue, group string }

// ruleChange sets a rule, or only its Paused.
type ruleChange struct {
	queue.Rule
	isPause bool
}

// SetRules implements [driver.Ruler]. It does not wait: of two transactions that set one rule, the
// commit of the second counts.
func (q *Queue) SetRules(ctx context.Context, db queue.DB, rules ...queue.Rule) error {
	var changes []ruleChange
	for i, r := range rules {
		if err := r.Check(); err != nil {
			return failed("set rules", err)
		}
		r.Queue = cmp.Or(r.Queue, queue.DefaultQueue)
		isLast := !slices.ContainsFunc(rules[i+1:], func(later queue.Rule) bool {
			return cmp.Or(later.Queue, queue.DefaultQueue) == r.Queue && later.Group == r.Group
		})
		if isLast {
			changes = append(changes, ruleChange{Rule: r})
		}
	}
	tx, err := txOf(db)
	if err != nil {
		return failed("set rules", err)
	}
	return q.do(ctx, "set rules", tx, func() *memTx {
		q.setRules(tx, changes...)
		return nil
	})
}

// setRules makes the changes valid, at once or when tx commits. The caller holds q.mu.
func (q *Queue) setRules(tx *memTx, changes ...ruleChange) {
	if tx != nil {
		tx.rules = append(tx.rules, changes...)
	} else {
		q.applyRules(changes)
	}
}

// applyRules makes the changes valid. The caller holds q.mu.
func (q *Queue) applyRules(changes []ruleChange) {
	if len(changes) == 0 {
		return
	}
	changed := make(map[string]bool)
	for _, c := range changes {
		k := ruleKey{c.Queue, c.Group}
		r, was := c.Rule, q.rules[k]
		if r.Paused = c.Paused || was.Paused; c.isPause {
			r, r.Queue, r.Group, r.Paused = was, c.Queue, c.Group, c.Paused
		}
		changed[r.Queue] = true
		if r.IsZero() {
			delete(q.rules, k)
		} else {
			q.rules[k] = r
		}
	}
	q.limits = limits.ByQueue(slices.Collect(maps.Values(q.rules)))
	for name := range changed {
		lanes := q.pending[name]
		delete(q.pending, name)
		for _, l := range lanes {
			for _, r := range slices.Concat(l.scheduled.rows, l.due.rows) {
				r.heap.remove(r)
				q.rowsOf(&r.committed).scheduled.add(r, r.committed.ScheduledAt)
			}
		}
		q.wake(name)
	}
}

// Rules implements [driver.Ruler].
func (q *Queue) Rules(ctx context.Context) ([]queue.Rule, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("list rules", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.SortedFunc(maps.Values(q.rules), func(a, b queue.Rule) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group))
	}), nil
}

// checkUnlimited returns a [*queue.InvalidError] if one of the queues is limited.
func (q *Queue) checkUnlimited(queues []string) error {
	for _, name := range queues {
		if q.limits[name] != nil {
			return failed("claim", limits.InTransaction(name))
		}
	}
	return nil
}

// indexRunning keeps r in running while it runs, for all who are not in its transaction. When it
// has ended, a limited queue has room again.
func (q *Queue) indexRunning(r *row) {
	if r.committed.Status == queue.StatusRunning {
		q.running[r.id] = r
		return
	}
	if q.running[r.id] == nil {
		return
	}
	delete(q.running, r.id)
	if name := r.committed.Queue; q.limits[name] != nil {
		q.wake(name)
	}
}

// fillLimited claims jobs of a limited queue, in the turns of its groups.
func (c *claim) fillLimited(name string, rules *limits.Queue) {
	running := 0
	for _, r := range c.q.running {
		if r.committed.Queue == name {
			running++
		}
	}
	room := min(c.req.Limit-len(c.jobs), rules.Running()-running)
	if rules.IsBounded() {
		room = min(room, c.req.Limit-c.req.Ahead-len(c.jobs))
	}
	if rules.IsPaused() || room <= 0 {
		return
	}
	c.meter = c.q.meter(name, rules, c.at)
	defer func() { c.q.spend(name, c.meter, c.at); c.meter = nil }()
	tokens, _ := c.meter.Room("")
	if room = min(room, tokens); room == 0 {
		return
	}
	first := len(c.jobs)
	if rules.HasTurns() {
		s := newTurns(c, name)
		for range 1 + len(s.groups)/limits.MaxGroups {
			var hasMore bool
			c.q.turns[name], hasMore, _ = rules.Walk(c.q.turns[name], room, s) // s fails only if the claim is full
			if !hasMore || len(c.jobs) > first {
				break
			}
		}
	} else {
		c.fill(c.q.advanced(name, c.req.Kinds, c.at), room)
	}
	c.fillOrdered(name, room-(len(c.jobs)-first), func(job *queue.Job) bool {
		ok, _ := c.meter.Allows(job.Group, job.Cost)
		return ok && rules.HasRoom(job.Group, c.q.runningOf(name, job.Group))
	})
	for _, job := range c.jobs[first:] {
		job.Limited = rules.IsBounded()
	}
}

// turns is the limits.Source of a claim in one queue.
type turns struct {
	c      *claim
	queue  string
	groups []string // those with pending rows, in order
	lanes  map[string][]*laneRows
}

func newTurns(c *claim, name string) *turns {
	t := &turns{c: c, queue: name, lanes: make(map[string][]*laneRows)}
	for l, rows := range c.q.pending[name] {
		if len(c.req.Kinds) > 0 && !slices.Contains(c.req.Kinds, l.kind) {
			continue
		}
		rows.advance(c.at)
		if rows.due.first() != nil {
			t.lanes[l.group] = append(t.lanes[l.group], rows)
		}
	}
	t.groups = slices.Sorted(maps.Keys(t.lanes))
	return t
}

// Next implements limits.Source.
func (t *turns) Next(after string) (group string, ok bool, err error) {
	i, found := slices.BinarySearch(t.groups, after)
	if found || i < len(t.groups) && t.groups[i] == "" {
		i++
	}
	if i == len(t.groups) {
		return "", false, nil
	}
	return t.groups[i], true, nil
}

// Running implements limits.Source.
func (t *turns) Running(group string) (n int, err error) {
	return t.c.q.runningOf(t.queue, group), nil
}

// runningOf returns how many jobs of the group run.
func (q *Queue) runningOf(name, group string) (n int) {
	for _, r := range q.running {
		if r.committed.Queue == name && r.committed.Group == group {
			n++
		}
	}
	return n
}

// Meter implements limits.Source.
func (t *turns) Meter() *limits.Meter { return t.c.meter }

// Take implements limits.Source.
func (t *turns) Take(group string, n int) (claimed int, err error) {
	claimed = t.c.fill(t.lanes[group], n)
	if t.c.room < 0 || t.c.meter.IsEmpty() {
		err = fmt.Errorf("memory: %w", limits.ErrFull)
	}
	return claimed, err
}
