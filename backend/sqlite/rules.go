package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// heldBackPoll is how often a sleeping worker looks again whether a limit still keeps jobs from
// being claimed. Usually the worker whose job has ended claims at once. It does not if it has
// stopped, or has no free slot.
const heldBackPoll = time.Second

// rules is what a Backend remembers of the rules. Its zero value knows no rules.
type rules struct {
	latest atomic.Pointer[knownRules]

	mu    sync.Mutex
	turns map[string]limitedTurn // of each limited queue
}

// knownRules are the rules of one version.
type knownRules struct {
	version int64
	queues  map[string]*limits.Queue // the limited queues
}

// limitedTurn is what the last claim of a limited queue came to.
type limitedTurn struct {
	after    string // the group behind which the next claim begins
	heldBack bool   // a limit may have kept jobs from being claimed
	hasMore  bool   // there are groups, or jobs without one, that it has not looked at
	pass     pass   // for jobs without a group
	pace     limits.Pace

	tokens time.Time // when a rate has tokens for the next job; may be over
}

func (r *rules) known() *knownRules {
	if known := r.latest.Load(); known != nil {
		return known
	}
	return &knownRules{}
}

// firstLimited returns the first of the queues that is limited.
func (k *knownRules) firstLimited(queues []string) (name string, ok bool) {
	i := slices.IndexFunc(queues, func(name string) bool { return k.queues[name] != nil })
	if i < 0 {
		return "", false
	}
	return queues[i], true
}

func (r *rules) turnOf(name string) limitedTurn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns[name]
}

func (r *rules) noteTurns(turns map[string]limitedTurn) {
	if len(turns) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns == nil {
		r.turns = make(map[string]limitedTurn)
	}
	for name, t := range turns {
		// A worker that waits for tokens is not told by others that there is nothing to wait for.
		if was := r.turns[name].tokens; was.After(time.Now()) && (t.tokens.IsZero() || was.Before(t.tokens)) {
			t.tokens = was
		}
		t.pace = r.turns[name].pace
		r.turns[name] = t
	}
}

// setPace changes when workers of the queues look at more groups.
func (r *rules) setPace(queues []string, change func(name string, p *limits.Pace)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range queues {
		if t, ok := r.turns[name]; ok {
			change(name, &t.pace)
			r.turns[name] = t
		}
	}
}

// bound returns until when a worker of the queues may sleep although it is not woken: next, or less
// if a limit may have kept the last claim of one of them from claiming jobs, if it has not looked
// at all groups, or if a rate has tokens sooner.
func (r *rules) bound(queues []string, next time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, name := range queues {
		t := r.turns[name]
		next = t.pace.Bound(next)
		if t.heldBack && (next < 0 || next > heldBackPoll) {
			next = heldBackPoll
		}
		next = limits.UntilTokens(next, t.tokens.Sub(now))
	}
	return next
}

// rulesOf returns the rules of that version, which db sees.
func (b *Backend) rulesOf(ctx context.Context, db queue.DB, version int64) (*knownRules, error) {
	if known := b.rules.known(); known.version == version {
		return known, nil
	}
	rules, err := b.readRules(ctx, db)
	return &knownRules{version: version, queues: limits.ByQueue(rules)}, err
}

// committedRules returns the latest rules that are committed, for a claim that only reads. If it
// knows of no limited queue among the queues, it reads nothing: the claim that writes finds out.
func (b *Backend) committedRules(ctx context.Context, db queue.DB, queues []string) (*knownRules, error) {
	known := b.rules.known()
	if _, ok := known.firstLimited(queues); !ok {
		return known, nil
	}
	var version int64
	err := queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&version) }, b.sql.rulesVersion)
	if err != nil || version == known.version {
		return known, err
	}
	return b.rulesOf(ctx, db, version)
}

// SetRules implements [queue.Ruler] with sql/set_rule.sql and sql/remove_rule.sql.
func (b *Backend) SetRules(ctx context.Context, db queue.DB, rules ...queue.Rule) error {
	rules, err := sqlkit.CheckedRules(rules)
	if err != nil {
		return fmt.Errorf("sqlite: set rules: %w", err)
	}
	if len(rules) == 0 {
		return nil
	}
	return b.changeRules(ctx, "set rules", db, rules, func(ctx context.Context, db queue.DB, r queue.Rule) error {
		_, err := exec(ctx, db, b.sql.setRule, r.Queue, r.Group, r.Paused, r.Running, r.PerGroup, r.Share, r.OnDead == queue.HoldDead,
			r.Rate.Jobs, int64(r.Rate.Per), r.Rate.Burst, r.GroupRate.Jobs, int64(r.GroupRate.Per), r.GroupRate.Burst)
		return err
	})
}

// PauseQueue implements [queue.Ruler] with sql/pause_rule.sql and sql/remove_rule.sql.
func (b *Backend) PauseQueue(ctx context.Context, db queue.DB, name string, paused bool) error {
	if err := queue.CheckQueue(name); err != nil {
		return fmt.Errorf("sqlite: pause: %w", err)
	}
	return b.pauseRule(ctx, db, queue.Rule{Queue: name, Paused: paused})
}

// PauseGroup implements [queue.Ruler] with sql/pause_rule.sql and sql/remove_rule.sql.
func (b *Backend) PauseGroup(ctx context.Context, db queue.DB, name, group string, paused bool) error {
	if err := queue.CheckGroup(name, group); err != nil {
		return fmt.Errorf("sqlite: pause: %w", err)
	}
	return b.pauseRule(ctx, db, queue.Rule{Queue: name, Group: group, Paused: paused})
}

func (b *Backend) pauseRule(ctx context.Context, db queue.DB, rule queue.Rule) error {
	return b.changeRules(ctx, "pause", db, []queue.Rule{rule}, func(ctx context.Context, db queue.DB, r queue.Rule) error {
		_, err := exec(ctx, db, b.sql.pauseRule, r.Queue, r.Group, r.Paused)
		return err
	})
}

// changeRules calls change for each of the rules, and removes the ones that then say nothing.
func (b *Backend) changeRules(
	ctx context.Context, operation string, db queue.DB, rules []queue.Rule,
	change func(ctx context.Context, db queue.DB, r queue.Rule) error,
) error {
	var changed requeued
	err := b.onHandle(ctx, operation, db, func(ctx context.Context, db queue.DB) error {
		changed = requeued{}
		if _, err := exec(ctx, db, b.sql.rulesChanged); err != nil {
			return err
		}
		for _, r := range rules {
			if err := change(ctx, db, r); err != nil {
				return err
			}
			if _, err := exec(ctx, db, b.sql.removeRule, r.Queue, r.Group); err != nil {
				return err
			}
			changed.add(r.Queue)
		}
		return b.bumpID(ctx, db, &changed)
	})
	if err == nil {
		b.wakeRequeued(b.isOwn(db), changed)
	}
	return err
}

// Rules implements [queue.Ruler] with sql/rules.sql.
func (b *Backend) Rules(ctx context.Context) (rules []queue.Rule, err error) {
	err = b.read(ctx, "list rules", func(db queue.DB) error {
		rules, err = b.readRules(ctx, db)
		return err
	})
	return rules, err
}

func (b *Backend) readRules(ctx context.Context, db queue.DB) (rules []queue.Rule, err error) {
	err = queryRows(ctx, db, func(rows *sql.Rows) error {
		var r queue.Rule
		var holdsDead bool
		err := rows.Scan(&r.Queue, &r.Group, &r.Paused, &r.Running, &r.PerGroup, &r.Share, &holdsDead,
			&r.Rate.Jobs, (*int64)(&r.Rate.Per), &r.Rate.Burst, &r.GroupRate.Jobs, (*int64)(&r.GroupRate.Per), &r.GroupRate.Burst)
		if holdsDead {
			r.OnDead = queue.HoldDead
		}
		rules = append(rules, r)
		return err
	}, b.sql.rules)
	return rules, err
}

// findLimited adds the due jobs of a limited queue to result, as many as its rules allow.
func (b *Backend) findLimited(ctx context.Context, db queue.DB, name string, q *limits.Queue, at int64, result *claimResult, req queue.ClaimRequest) error {
	room := req.Limit - len(result.jobs)
	if q.IsBounded() {
		room -= req.Ahead
	}
	if q.IsPaused() || room <= 0 {
		return nil
	}
	t := b.rules.turnOf(name)
	s := &groups{
		b: b, ctx: ctx, db: db, queue: name, at: at, result: result, req: req, rules: q,
		running: make(map[string]int), ends: make(map[string]place), pass: newPassClaim(t.pass, at),
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
	t.heldBack, t.hasMore, t.tokens = runs > 0, false, time.Time{}
	first := len(result.jobs)
	room = min(room, q.Running()-runs, tokens)
	upTo := withLimit(req, first+room)
	if room > 0 && q.HasTurns() {
		t.after, t.hasMore, err = q.Walk(t.after, room, s)
		t.pass = s.pass.next()
		t.hasMore = t.hasMore || s.pass.isCut
		t.heldBack = t.heldBack || s.pass.isLater
		if err == nil && !result.isFull(upTo) && !s.meter.IsEmpty() {
			ordered := len(result.jobs)
			err = b.findOrdered(ctx, db, name, at, result, upTo, s)
			err = cmp.Or(err, s.pay(ordered))
		}
	} else if room > 0 {
		err = b.findIn(ctx, db, name, at, result, upTo, true)
		err = cmp.Or(err, s.pay(first))
	}
	if err != nil {
		return err
	}
	if wait := s.wait(); wait >= 0 {
		t.tokens = time.Now().Add(wait)
	}
	if s.meter != nil {
		if result.meters == nil {
			result.meters = make(map[string]*limits.Meter)
		}
		result.meters[name] = s.meter
	}
	for _, job := range result.jobs[first:] {
		job.Limited = q.IsBounded()
	}
	if result.limited == nil {
		result.limited = make(map[string]limitedTurn)
	}
	result.limited[name] = t
	return nil
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
	}, s.b.sql.running, s.queue)
	return all, err
}

// Next implements limits.Source.
func (s *groups) Next(after string) (group string, ok bool, err error) {
	var next sql.NullString
	err = queryRows(s.ctx, s.db, func(rows *sql.Rows) error { return rows.Scan(&next) }, s.b.sql.nextGroup, s.queue, after)
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
			err = s.result.fill(s.ctx, s.db, s.queue, s.req, s.b.sql.dueGroup,
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
	query, args := s.b.sql.groupPriority, []any{s.queue, group, end.priority}
	if group == "" {
		query, args = s.b.sql.nextPriority, []any{s.queue, end.priority}
	}
	err = queryRows(s.ctx, s.db, func(rows *sql.Rows) error { return rows.Scan(&priority) }, query, args...)
	ok = priority.Valid && priority.Int64 != orderedPriority
	return place{priority: priority.Int64, due: math.MinInt64, id: 1}, ok, err
}
