package memory

import (
	"container/heap"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// pile is a heap of rows, ordered by priority (if byPriority is set), then due time, then ID.
type pile struct {
	rows       []*row
	byPriority bool
}

func (p *pile) add(r *row, due time.Time) {
	r.due = due
	heap.Push(p, r)
}

func (p *pile) remove(r *row) { heap.Remove(p, r.at) }

// first returns the first row and leaves it in place; nil if there is none.
func (p *pile) first() *row {
	if len(p.rows) == 0 {
		return nil
	}
	return p.rows[0]
}

// firstDue returns the first row if it is due, else nil.
func (p *pile) firstDue(now time.Time) *row {
	if r := p.first(); r != nil && !r.due.After(now) {
		return r
	}
	return nil
}

// The rest implements heap.Interface.

func (p *pile) Len() int { return len(p.rows) }

func (p *pile) Less(i, j int) bool {
	a, b := p.rows[i], p.rows[j]
	if pa, pb := a.committed.Priority, b.committed.Priority; p.byPriority && pa != pb {
		return pa < pb
	}
	return sooner(a.due, b.due, a.id, b.id)
}

func sooner(a, b time.Time, idA, idB int64) bool {
	if c := a.Compare(b); c != 0 {
		return c < 0
	}
	return idA < idB
}

func (p *pile) Swap(i, j int) {
	p.rows[i], p.rows[j] = p.rows[j], p.rows[i]
	p.rows[i].at, p.rows[j].at = i, j
}

func (p *pile) Push(x any) {
	r := x.(*row)
	r.in, r.at = p, len(p.rows)
	p.rows = append(p.rows, r)
}

func (p *pile) Pop() any {
	last := len(p.rows) - 1
	r := p.rows[last]
	p.rows[last] = nil
	p.rows = p.rows[:last]
	r.in = nil
	return r
}

// line holds the pending rows of one kind in one queue.
type line struct {
	later pile // all, until their time is seen to have come
	ready pile // those that are due, by priority
}

// advance moves rows that have become due to ready.
func (l *line) advance(now time.Time) {
	for r := l.later.firstDue(now); r != nil; r = l.later.firstDue(now) {
		l.later.remove(r)
		l.ready.add(r, r.due)
	}
}

func (q *Queue) line(name, kind string) *line {
	kinds := q.lines[name]
	if kinds == nil {
		kinds = make(map[string]*line)
		q.lines[name] = kinds
	}
	if kinds[kind] == nil {
		kinds[kind] = &line{ready: pile{byPriority: true}}
	}
	return kinds[kind]
}

// due returns the queue's lines of the kinds, or of all kinds if none are given. Rows that are due
// at that time are in ready.
func (q *Queue) due(name string, kinds []string, at time.Time) []*line {
	var lines []*line
	for kind, l := range q.lines[name] {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			l.advance(at)
			lines = append(lines, l)
		}
	}
	return lines
}

// first returns the row of the lines that is claimed first; nil if none is due.
func first(lines []*line) *row {
	var best *row
	for _, l := range lines {
		if r := l.ready.first(); r != nil && (best == nil || claimedBefore(&r.committed, &best.committed)) {
			best = r
		}
	}
	return best
}

// claimedBefore reports whether a is claimed before b, within a queue.
func claimedBefore(a, b *queue.Record) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return sooner(a.ScheduledAt, b.ScheduledAt, a.ID, b.ID)
}
