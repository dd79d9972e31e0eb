package sqlite

import (
	"database/sql"
	"math"
)

// Jobs without a group, where groups take turns.
//
// Problem: they have no index of their own. A claim that looks for them comes to the due jobs of
// all groups, which may be many.
// Rule: a claim looks at maxSlices thousand due jobs, from the head of the queue on. If it does not
// find enough, the next claim goes on where it stopped, and so on to the end: this is a pass. Jobs
// that have become due since a pass began are left to the next one, so each pass ends.
// Bounds: while a pass goes on, limits.Pace tells when workers claim again. Then they look again
// after heldBackPoll: in front of a claim there may be jobs that were enqueued during the pass.
// Shown by: the suite's case "6,000 jobs of another kind hide none".

// maxSlices is how many thousand jobs a claim looks at.
const maxSlices = 5

// A pass looks at all due jobs of a queue, for those without a group.
type pass struct {
	at    place // it goes on behind it; the zero value is the head
	until int64 // the last due time
}

// A passClaim is what one claim does of a pass.
type passClaim struct {
	pass
	isLater bool // the pass has begun in an earlier claim
	slices  int  // how many thousand jobs the claim has looked at without finding enough
	isCut   bool // there are too many for this claim
	isOver  bool // it has come to the end
}

func newPassClaim(p pass, at int64) passClaim {
	if p.at.id == 0 {
		return passClaim{pass: pass{place{priority: math.MinInt64, due: math.MinInt64}, at}}
	}
	return passClaim{pass: p, isLater: true}
}

// next returns the pass as the next claim finds it.
func (c passClaim) next() pass {
	if c.isOver || !c.isCut && !c.isLater {
		return pass{}
	}
	return c.pass
}

// takeUngrouped adds up to n due jobs without a group to the result.
func (s *groups) takeUngrouped(n int) error {
	p, first := &s.pass, len(s.result.jobs)
	for !p.isCut && !p.isOver {
		if p.at.id > 0 {
			room := n - (len(s.result.jobs) - first)
			err := s.result.fill(s.ctx, s.db, s.queue, s.req, s.b.sql["due_ungrouped"],
				s.queue, p.at.priority, p.until, room, kindsOf(s.req), p.at.due, p.at.id)
			if err != nil {
				return err
			}
			if last := len(s.result.jobs); last-first == n || s.result.overflow {
				if last > first {
					p.at = placeOf(s.result.jobs[last-1])
				}
				return nil
			}
			if found, err := s.skipSlice(); found || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		next, ok, err := s.nextPriority("", p.at)
		if err != nil {
			return err
		}
		p.at, p.isOver = next, !ok
	}
	return nil
}

// skipSlice moves the pass behind a thousand due jobs of its priority, if there are so many.
func (s *groups) skipSlice() (found bool, err error) {
	p := &s.pass
	err = queryRows(s.ctx, s.db, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(&p.at.due, &p.at.id)
	}, s.b.sql["skip_ungrouped"], s.queue, p.at.priority, p.until, p.at.due, p.at.id)
	if found {
		p.slices++
		p.isCut = p.slices == maxSlices
	}
	return found, err
}
