// Package limits is what backends share that keep [queue.Rule]s in Go: the rules of a queue, and
// the turns of its groups.
package limits

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/errandhq/errand/queue"
)

// Unlimited is a limit that is never reached.
const Unlimited = math.MaxInt

// Queue is the rules of one queue.
type Queue struct {
	rule   queue.Rule
	groups map[string]queue.Rule
}

// ByQueue returns the rules of each limited queue.
func ByQueue(rules []queue.Rule) map[string]*Queue {
	queues := make(map[string]*Queue)
	for _, r := range rules {
		if !r.IsLimit() {
			continue
		}
		name := cmp.Or(r.Queue, queue.DefaultQueue)
		q := queues[name]
		if q == nil {
			q = &Queue{groups: make(map[string]queue.Rule)}
			queues[name] = q
		}
		if r.Group == "" {
			q.rule = r
		} else {
			q.groups[r.Group] = r
		}
	}
	return queues
}

// IsPaused reports whether no job of the queue may be claimed.
func (q *Queue) IsPaused() bool { return q.rule.Paused }

// Running returns how many jobs of the queue may run at once, or Unlimited.
func (q *Queue) Running() int { return cmp.Or(q.rule.Running, Unlimited) }

// HasTurns reports whether the queue's groups take turns.
func (q *Queue) HasTurns() bool {
	return q.rule.PerGroup > 0 || q.rule.Share > 0 || q.rule.GroupRate.Jobs > 0 || len(q.groups) > 0
}

// IsBounded reports whether a rule bounds how many jobs run or start. If none does, the rules only
// let groups take turns, or pause them.
func (q *Queue) IsBounded() bool {
	isBounded := func(r queue.Rule) bool {
		return r.Running > 0 || r.PerGroup > 0 || r.Rate.Jobs > 0 || r.GroupRate.Jobs > 0
	}
	for _, r := range q.groups {
		if isBounded(r) {
			return true
		}
	}
	return isBounded(q.rule)
}

// perGroup returns how many jobs of the group may run at once, or Unlimited. Jobs without a group
// have no such limit.
func (q *Queue) perGroup(group string) int {
	r := q.groups[group]
	limit := cmp.Or(r.PerGroup, q.rule.PerGroup)
	switch {
	case r.Paused:
		return 0
	case group == "" || limit <= 0:
		return Unlimited
	}
	return limit
}

func (q *Queue) share(group string) int { return cmp.Or(q.groups[group].Share, q.rule.Share, 1) }

// HasRoom reports whether one more job of the group may run beside those that run.
func (q *Queue) HasRoom(group string, running int) bool { return running < q.perGroup(group) }

// ErrFull is returned by Source.Take if the claim can take no more jobs, whatever their group.
var ErrFull = errors.New("full")

// Source is what Walk asks for. "" is the group of the jobs that have none.
type Source interface {
	// Next returns the first group behind that one, by name, that has pending jobs. It never
	// returns "".
	Next(after string) (group string, ok bool, err error)
	// Running returns how many jobs of the group run, including those that Take has claimed.
	Running(group string) (int, error)
	// Take claims up to n due jobs of the group, and returns how many. It spends the tokens of rates.
	Take(group string, n int) (int, error)
	// Meter returns the meter of the claim, or nil.
	Meter() *Meter
}

// MaxGroups is how many groups one walk visits at most.
const MaxGroups = 1000

// maxJobs is how many jobs one walk claims at most.
const maxJobs = 1_000_000

// Walk claims up to room jobs. The groups take turns from the first one behind after, in the order
// of their names, and jobs without a group have theirs behind the last. If all groups have had a
// turn and there is room left, the groups with more jobs share it in longer turns. Walk returns the
// group behind which the next walk begins. It looks at a thousand groups at most; hasMore tells
// that there may be others, and room for their jobs.
func (q *Queue) Walk(after string, room int, s Source) (last string, hasMore bool, err error) {
	w := walk{q: q, s: s, room: min(room, maxJobs), last: after}
	open, err := w.firstRound(after)
	for err == nil && w.room > 0 && len(open) > 0 {
		open, err = w.round(open)
	}
	if errors.Is(err, ErrFull) {
		err = nil
	}
	return w.last, w.isCut && w.room > 0, err
}

type walk struct {
	q    *Queue
	s    Source
	room int
	last string

	isCut bool // it has not looked at all groups
}

// firstRound gives each group a turn. It returns the groups that may have more jobs.
func (w *walk) firstRound(after string) (open []string, err error) {
	name, wrapped := after, false
	for range MaxGroups {
		group, ok, err := w.s.Next(name)
		if err != nil || ok && wrapped && group > after {
			return open, err
		}
		if !ok && wrapped {
			return open, nil
		}
		if !ok {
			group, wrapped = "", true
		}
		name = group
		more, err := w.visit(group, w.q.share(group))
		if err != nil || w.room == 0 {
			return open, err
		}
		if more {
			open = append(open, group)
		}
	}
	w.isCut = true
	return open, nil
}

// round shares the room that is left between those groups, and returns the ones that may have more
// jobs.
func (w *walk) round(groups []string) (open []string, err error) {
	room, shares := w.room, 0
	for _, group := range groups {
		shares += w.q.share(group)
	}
	for _, group := range groups {
		share := w.q.share(group)
		more, err := w.visit(group, max(share, int(int64(room)*int64(share)/int64(shares))))
		if err != nil || w.room == 0 {
			return nil, err
		}
		if more {
			open = append(open, group)
		}
	}
	return open, nil
}

// visit gives a group a turn of up to most jobs, and reports whether another one may bring more.
func (w *walk) visit(group string, most int) (more bool, err error) {
	before := w.last
	w.last = group
	free := w.q.perGroup(group)
	if free != Unlimited && free > 0 {
		running, err := w.s.Running(group)
		if err != nil {
			return false, err
		}
		free -= running
	}
	if group != "" && free > 0 {
		tokens, err := w.s.Meter().Room(group)
		if err != nil {
			return false, err
		}
		free = min(free, tokens)
	}
	n := min(free, w.room, most)
	if n <= 0 {
		return false, nil
	}
	taken, err := w.s.Take(group, n)
	w.room -= taken
	if taken == 0 && errors.Is(err, ErrFull) {
		w.last = before // the group's turn is still to come
	}
	return taken == n && free > n, err
}

// InTransaction returns the error of ClaimTx for a limited queue.
func InTransaction(name string) error {
	return &queue.InvalidError{
		Field:   "Queues",
		Problem: fmt.Sprintf("%q has rules, which count the jobs that run: a job of ClaimTx does not run for other claims; use Claim", name),
	}
}
