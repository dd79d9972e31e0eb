package memory

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// heads holds the groups of a queue that have live ordered jobs. They take turns.
type heads struct {
	lines map[string]*line
	turns list.List // of *line; the first has its turn next
}

// line holds the live ordered jobs of one group.
type line struct {
	of           *heads
	queue, group string
	rows         []*row // in the order of their IDs
	running      *row   // the one that runs, or nil
	turn         *list.Element
}

// indexOrder keeps r in the line of its group while it is an ordered job that is live.
func (q *Queue) indexOrder(r *row) {
	rec := &r.committed
	if l := r.line; l != nil && (!rec.Ordered || rec.Queue != l.queue || rec.Group != l.group) {
		q.leaveLine(r) // a different job has taken its place
	}
	if !rec.Ordered {
		return
	}
	switch isLive := live(rec); {
	case isLive && r.line == nil:
		r.line = q.lineOf(rec)
		i, _ := slices.BinarySearchFunc(r.line.rows, r.id, compareID)
		r.line.rows = slices.Insert(r.line.rows, i, r)
	case !isLive && r.line != nil:
		q.leaveLine(r)
		return
	case !isLive:
		return
	}
	switch {
	case rec.Status == queue.StatusRunning:
		r.line.running = r
	case r.line.running == r:
		r.line.running = nil
	}
}

func compareID(r *row, id int64) int { return cmp.Compare(r.id, id) }

// lineOf returns the line of the group of an ordered job.
func (q *Queue) lineOf(rec *queue.Record) *line {
	h := q.ordered[rec.Queue]
	if h == nil {
		h = &heads{lines: make(map[string]*line)}
		q.ordered[rec.Queue] = h
	}
	l := h.lines[rec.Group]
	if l == nil {
		l = &line{of: h, queue: rec.Queue, group: rec.Group}
		l.turn = h.turns.PushBack(l)
		h.lines[rec.Group] = l
	}
	return l
}

// leaveLine takes a job that is no longer live, or no longer ordered, out of its line. The next job
// of the group may be due, so it wakes the workers that sleep.
func (q *Queue) leaveLine(r *row) {
	l := r.line
	r.line = nil
	if l.running == r {
		l.running = nil
	}
	if i, _ := slices.BinarySearchFunc(l.rows, r.id, compareID); i > 0 {
		l.rows = slices.Delete(l.rows, i, i+1)
	} else {
		l.rows[0], l.rows = nil, l.rows[1:] // moves no other
	}
	if len(l.rows) > 0 {
		q.wake(l.queue)
		return
	}
	l.of.turns.Remove(l.turn)
	delete(l.of.lines, l.group)
}

// head returns the first job of the line if it is pending and no job of the line runs, else nil.
func (l *line) head() *row {
	if r := l.rows[0]; l.running == nil && r.committed.Status == queue.StatusPending {
		return r
	}
	return nil
}

// fillOrdered claims up to n heads of the queue's groups for which mayRun is true; nil means all.
func (c *claim) fillOrdered(name string, n int, mayRun func(*queue.Job) bool) {
	for ; n > 0 && c.take(c.q.nextHead(name, c.req.Kinds, c.at, mayRun)); n-- {
	}
}

// nextHead returns the head of the next group of the queue whose head is due, of one of the kinds,
// and not locked, and for which mayRun is true. nil means that there is none. An empty kinds means
// all kinds, and a nil mayRun all heads.
func (q *Queue) nextHead(name string, kinds []string, at time.Time, mayRun func(*queue.Job) bool) *row {
	h := q.ordered[name]
	if h == nil {
		return nil
	}
	for range h.turns.Len() {
		first := h.turns.Front()
		h.turns.MoveToBack(first)
		r := first.Value.(*line).head()
		if r != nil && r.tx == nil && !r.committed.ScheduledAt.After(at) &&
			(len(kinds) == 0 || slices.Contains(kinds, r.committed.Kind)) &&
			(mayRun == nil || mayRun(&r.committed.Job)) {
			return r
		}
	}
	return nil
}

// nextHeadDue returns how long until the next scheduled head of the queue is due; below 0 if none
// is scheduled.
func (q *Queue) nextHeadDue(name string, at time.Time) time.Duration {
	next := time.Duration(-1)
	if h := q.ordered[name]; h != nil {
		for _, l := range h.lines {
			if r := l.head(); r != nil && r.committed.ScheduledAt.After(at) && (next < 0 || r.committed.ScheduledAt.Sub(at) < next) {
				next = r.committed.ScheduledAt.Sub(at)
			}
		}
	}
	return next
}
