package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

const (
	// orderedPriority is the priority of ordered jobs in the table. No other job has it.
	orderedPriority = math.MaxInt32
	// maxWalk is how many groups that are blocked a claim passes over at most. The next claim goes
	// on there.
	maxWalk = 10_000
	// orderedPoll is how often to look for jobs that could follow one that runs elsewhere. Its end
	// wakes no worker but its own.
	orderedPoll = time.Second
)

// turns are the queues that have had ordered jobs. The zero value knows none.
type turns struct {
	mu    sync.Mutex
	known map[string]turn
}

type turn struct {
	after   string    // the group behind which the next claim begins
	seen    time.Time // when there were ordered jobs
	hasMore bool      // the last claim has not looked at all groups
}

func (t *turns) get(name string) turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[name]
}

// set records where the next claims begin.
func (t *turns) set(found map[string]turn) {
	if len(found) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = make(map[string]turn)
	}
	for name, next := range found {
		t.known[name] = next
	}
}

// bound returns until when a worker of the queues may sleep although it is not woken: next, or less
// if there have just been ordered jobs.
func (t *turns) bound(queues []string, next time.Duration) time.Duration {
	for _, name := range queues {
		known := t.get(name)
		limit := orderedPoll
		if known.hasMore {
			limit /= 20
		}
		if time.Since(known.seen) < 2*orderedPoll && (next < 0 || limit < next) {
			next = limit
		}
	}
	return next
}

// findOrdered adds to result the due ordered jobs of a queue that are the first of their groups.
// The groups take turns, from the one on that follows the last. If the queue is limited, it passes
// over groups without room.
func (b *Backend) findOrdered(ctx context.Context, db queue.DB, name string, at int64, result *claimResult, req queue.ClaimRequest, limited *groups) error {
	w := walk{start: b.turns.get(name).after, room: req.Limit - len(result.jobs)}
	w.last = w.start
	for !w.isOver {
		visited := 0
		err := queryRows(ctx, db, func(rows *sql.Rows) error {
			visited++
			var group string
			var head sql.NullInt64
			if err := rows.Scan(&group, &head); err != nil {
				return err
			}
			head.Valid = head.Valid && limited.hasRoom(group)
			return w.visit(group, head)
		}, b.sql["groups"], name, w.last, at, kindsOf(req))
		if err != nil && !errors.Is(err, errFull) {
			return err
		}
		if visited == 0 {
			w.wrap()
		}
	}
	if w.found+w.passed == 0 {
		return nil
	}
	if result.turns == nil {
		result.turns = make(map[string]turn)
	}
	result.turns[name] = turn{after: w.last, seen: time.Now(), hasMore: w.hasMore}
	if w.found == 0 {
		return nil
	}
	return result.fill(ctx, db, name, req, b.sql["heads"], w.heads.String())
}

// walk goes from group to group.
type walk struct {
	start, last string // the groups behind which it has begun, and at which it is
	room        int    // how many jobs it may find
	heads       list   // the ids of those
	found       int
	passed      int // groups that are blocked
	hasWrapped  bool
	isOver      bool
	hasMore     bool // there are groups that it has not looked at
}

// visit looks at the next group. head is its first job if that may be claimed. The error is errFull
// if the walk is over.
func (w *walk) visit(group string, head sql.NullInt64) error {
	if w.hasWrapped && group > w.start {
		w.isOver = true
		return errFull
	}
	w.last = group
	if head.Valid {
		w.heads.int(head.Int64)
		w.found++
	} else {
		w.passed++
	}
	if w.found == w.room || w.passed == maxWalk {
		w.isOver, w.hasMore = true, true
		return errFull
	}
	return nil
}

// wrap goes on with the first group, or ends the walk where it began there.
func (w *walk) wrap() {
	if w.hasWrapped || w.start == "" {
		w.isOver = true
		return
	}
	w.hasWrapped, w.last = true, ""
}

// priorityOf returns the priority of the job in the table.
func priorityOf(j *queue.Job) int64 {
	if j.Ordered {
		return orderedPriority
	}
	return int64(j.Priority)
}
