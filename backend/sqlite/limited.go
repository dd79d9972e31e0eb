package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
)

// findLimited adds the due jobs of a limited queue to result, as many as its rules allow.
func (b *Backend) findLimited(ctx context.Context, db queue.DB, name string, q *limits.Queue, at int64, result *claimResult, req queue.ClaimRequest) error {
	room := req.Limit - len(result.jobs)
	if q.IsBounded() {
		room -= req.Ahead
	}
	if q.IsPaused() || room <= 0 {
		return nil
	}
	t := b.rules.Of(name)
	s := &groups{
		b: b, ctx: ctx, db: db, queue: name, at: at, result: result, req: req, rules: q,
		running: make(map[string]int), ends: make(map[string]place), pass: newPassClaim(t.Own.pass, at),
	}
	runs, err := s.countRunning()
	if err != nil {
		return err
	}
	s.meter = q.Meter(time.UnixMicro(at), s.loadBucket)
	tokens, err := s.meter.Room("")
	if err != nil {
		return err
	}
	t.HeldBack, t.Own.hasMore, t.Tokens = runs > 0, false, time.Time{}
	first := len(result.jobs)
	if room = min(room, q.Running()-runs, tokens); room > 0 {
		if err := s.take(room, &t); err != nil {
			return err
		}
	}
	if wait := s.wait(); wait >= 0 {
		t.Tokens = time.Now().Add(wait)
	}
	for _, job := range result.jobs[first:] {
		job.Limited = q.IsBounded()
		t.HeldBack = t.HeldBack || job.Limited // by this claim, for another worker of this process
	}
	result.keepLimited(name, t, s.meter)
	return nil
}

// keepLimited keeps for the end of the claim where it is in the limited queue, and what it paid
// there. The meter is nil if the queue has no rates.
func (c *claimResult) keepLimited(name string, t limits.LastClaim[lastClaim], meter *limits.Meter) {
	if meter != nil {
		if c.meters == nil {
			c.meters = make(map[string]*limits.Meter)
		}
		c.meters[name] = meter
	}
	if c.limited == nil {
		c.limited = make(map[string]limits.LastClaim[lastClaim])
	}
	c.limited[name] = t
}

// take adds up to room due jobs to the result: by turns of the groups if the queue has them, and
// then the ordered jobs; else by priority. It sets t to where the next claim goes on.
func (s *groups) take(room int, t *limits.LastClaim[lastClaim]) (err error) {
	first := len(s.result.jobs)
	upTo := withLimit(s.req, first+room)
	if !s.rules.HasTurns() {
		err = s.b.findIn(s.ctx, s.db, s.queue, s.at, s.result, upTo, true)
		return cmp.Or(err, s.pay(first))
	}
	t.Own.after, t.Own.hasMore, err = s.rules.Walk(t.Own.after, room, s)
	t.Own.pass = s.pass.next()
	t.Own.hasMore = t.Own.hasMore || s.pass.isCut
	t.HeldBack = t.HeldBack || s.pass.isLater
	if err != nil || s.result.isFull(upTo) || s.meter.IsEmpty() {
		return err
	}
	ordered := len(s.result.jobs)
	err = s.b.findOrdered(s.ctx, s.db, s.queue, s.at, s.result, upTo, s)
	return cmp.Or(err, s.pay(ordered))
}

// groups is the limits.Source of a claim in one queue.
type groups struct {
	b       *Backend
	ctx     context.Context
	db      queue.DB
	queue   string
	at      int64
	result  *claimResult
	req     queue.ClaimRequest
	rules   *limits.Queue
	meter   *limits.Meter
	running map[string]int

	hasRefused bool // pay has dropped jobs

	ends map[string]place // of the groups that Take has been called for
	pass passClaim        // for jobs without a group
}

// place is that of a job among the pending jobs of its group.
type place struct{ priority, due, id int64 }

// hasRoom reports whether another job of the group may run. A nil s limits nothing.
func (s *groups) hasRoom(group string) bool {
	return s == nil || s.rules.HasRoom(group, s.running[group])
}

// countRunning reads how many jobs of each group run, and returns how many of the queue.
func (s *groups) countRunning() (all int, err error) {
	err = queryRows(s.ctx, s.db, func(rows *sql.Rows) error {
		var group string
		var n int
		err := rows.Scan(&group, &n)
		s.running[group] = n
		all += n
		return err
	}, s.b.sql["running"], s.queue)
	return all, err
}

// Next implements limits.Source.
func (s *groups) Next(after string) (group string, ok bool, err error) {
	var next sql.NullString
	err = queryRows(s.ctx, s.db, func(rows *sql.Rows) error { return rows.Scan(&next) }, s.b.sql["next_group"], s.queue, after)
	return next.String, next.Valid, err
}

// Running implements limits.Source.
func (s *groups) Running(group string) (int, error) { return s.running[group], nil }

// Meter implements limits.Source.
func (s *groups) Meter() *limits.Meter { return s.meter }

// Take implements limits.Source.
func (s *groups) Take(group string, n int) (taken int, err error) {
	first, before := len(s.result.jobs), s.pass
	if group == "" {
		err = s.takeUngrouped(n)
	} else {
		err = s.takeGroup(group, n)
	}
	found := len(s.result.jobs)
	if err == nil {
		err = s.pay(first)
	}
	if len(s.result.jobs) < found { // it takes no more of the group
		s.pass = before
	}
	taken = len(s.result.jobs) - first
	s.running[group] += taken
	if err == nil && (s.result.overflow || s.meter.IsEmpty()) {
		err = limits.ErrFull
	}
	return taken, err
}

// takeGroup adds up to n due jobs of the group to the result. It reads each priority by itself, as
// findIn does.
func (s *groups) takeGroup(group string, n int) (err error) {
	end, ok := s.ends[group]
	if !ok {
		end = place{priority: math.MinInt64, due: math.MinInt64}
	}
	first := len(s.result.jobs)
	for more := true; more && err == nil; {
		if room := n - (len(s.result.jobs) - first); end.id > 0 {
			err = s.result.fill(s.ctx, s.db, s.queue, s.req, s.b.sql["due_group"],
				s.queue, end.priority, s.at, room, kindsOf(s.req), group, end.due, end.id)
		}
		if more = len(s.result.jobs)-first < n && !s.result.overflow; more && err == nil {
			end, more, err = s.nextPriority(group, end)
		}
	}
	if last := len(s.result.jobs); last > first {
		end = placeOf(s.result.jobs[last-1])
	}
	s.ends[group] = end
	return err
}

func placeOf(job *queue.Job) place {
	return place{int64(job.Priority), job.ScheduledAt.UnixMicro(), job.ID}
}

// nextPriority returns the place before the first job of the group's next priority.
func (s *groups) nextPriority(group string, end place) (next place, ok bool, err error) {
	var priority sql.NullInt64
	query, args := s.b.sql["next_priority_group"], []any{s.queue, group, end.priority}
	if group == "" {
		query, args = s.b.sql["next_priority"], []any{s.queue, end.priority}
	}
	err = queryRows(s.ctx, s.db, func(rows *sql.Rows) error { return rows.Scan(&priority) }, query, args...)
	ok = priority.Valid && priority.Int64 != orderedPriority
	return place{priority: priority.Int64, due: math.MinInt64, id: 1}, ok, err
}
