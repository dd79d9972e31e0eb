package memory

import (
	"container/heap"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// rowHeap is a heap of rows, ordered by priority (if byPriority is set), then due time, then ID.
type rowHeap struct {
	rows       []*row
	byPriority bool
}

func (h *rowHeap) add(r *row, due time.Time) {
	r.due = due
	heap.Push(h, r)
}

func (h *rowHeap) remove(r *row) { heap.Remove(h, r.index) }

// first returns the first row and leaves it in place; nil if there is none.
func (h *rowHeap) first() *row {
	if len(h.rows) == 0 {
		return nil
	}
	return h.rows[0]
}

// firstDue returns the first row if it is due, else nil.
func (h *rowHeap) firstDue(now time.Time) *row {
	if r := h.first(); r != nil && !r.due.After(now) {
		return r
	}
	return nil
}

// The rest implements heap.Interface.

func (h *rowHeap) Len() int { return len(h.rows) }

func (h *rowHeap) Less(i, j int) bool {
	a, b := h.rows[i], h.rows[j]
	if pa, pb := a.committed.Priority, b.committed.Priority; h.byPriority && pa != pb {
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

func (h *rowHeap) Swap(i, j int) {
	h.rows[i], h.rows[j] = h.rows[j], h.rows[i]
	h.rows[i].index, h.rows[j].index = i, j
}

func (h *rowHeap) Push(x any) {
	r := x.(*row)
	r.heap, r.index = h, len(h.rows)
	h.rows = append(h.rows, r)
}

func (h *rowHeap) Pop() any {
	last := len(h.rows) - 1
	r := h.rows[last]
	h.rows[last] = nil
	h.rows = h.rows[:last]
	r.heap = nil
	return r
}

// lane is which of a queue's pending rows are in one laneRows. group is "" for all rows if the
// groups of the queue do not take turns.
type lane struct{ kind, group string }

// laneRows holds the pending rows of one lane of a queue.
type laneRows struct {
	scheduled rowHeap // those that advance has not yet moved, by due time
	due       rowHeap // those that are due, by priority
}

// advance moves the rows that have become due from scheduled to due.
func (k *laneRows) advance(now time.Time) {
	for r := k.scheduled.firstDue(now); r != nil; r = k.scheduled.firstDue(now) {
		k.scheduled.remove(r)
		k.due.add(r, r.due)
	}
}

// rowsOf returns the lane of a pending row.
func (q *Queue) rowsOf(rec *queue.Record) *laneRows {
	lanes := q.pending[rec.Queue]
	if lanes == nil {
		lanes = make(map[lane]*laneRows)
		q.pending[rec.Queue] = lanes
	}
	l := lane{kind: rec.Kind}
	if rules := q.limits[rec.Queue]; rules != nil && rules.HasTurns() {
		l.group = rec.Group
	}
	if lanes[l] == nil {
		lanes[l] = &laneRows{due: rowHeap{byPriority: true}}
	}
	return lanes[l]
}

// advanced returns the pending rows of a queue: of the given kinds, or of all kinds if none are
// given. It has moved the rows that are due at that time.
func (q *Queue) advanced(name string, kinds []string, at time.Time) []*laneRows {
	var all []*laneRows
	for l, rows := range q.pending[name] {
		if len(kinds) == 0 || slices.Contains(kinds, l.kind) {
			rows.advance(at)
			all = append(all, rows)
		}
	}
	return all
}

// firstToClaim returns the due row that is claimed first; nil if no row is due.
func firstToClaim(all []*laneRows) *row {
	var best *row
	for _, k := range all {
		if r := k.due.first(); r != nil && (best == nil || claimedBefore(&r.committed, &best.committed)) {
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
