package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
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
	err := queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&version) }, b.sql["rules_version"])
	if err != nil || version == known.version {
		return known, err
	}
	return b.rulesOf(ctx, db, version)
}

// SetRules implements [driver.Ruler] with sql/set_rule.sql and sql/remove_rule.sql.
func (b *Backend) SetRules(ctx context.Context, db queue.DB, rules ...queue.Rule) error {
	rules, err := sqlkit.CheckedRules(rules)
	if err != nil {
		return fmt.Errorf("sqlite: set rules: %w", err)
	}
	if len(rules) == 0 {
		return nil
	}
	return b.changeRules(ctx, "set rules", db, rules, func(ctx context.Context, db queue.DB, r queue.Rule) error {
		_, err := exec(ctx, db, b.sql["set_rule"], r.Queue, r.Group, r.Paused, r.Running, r.PerGroup, r.Share, r.OnDead == queue.HoldDead,
			r.Rate.Jobs, int64(r.Rate.Per), r.Rate.Burst, r.GroupRate.Jobs, int64(r.GroupRate.Per), r.GroupRate.Burst)
		return err
	})
}

// PauseQueue implements [driver.Ruler] with sql/pause_rule.sql and sql/remove_rule.sql.
func (b *Backend) PauseQueue(ctx context.Context, db queue.DB, name string, paused bool) error {
	if err := driver.CheckQueue(name); err != nil {
		return fmt.Errorf("sqlite: pause: %w", err)
	}
	return b.pauseRule(ctx, db, queue.Rule{Queue: name, Paused: paused})
}

// PauseGroup implements [driver.Ruler] with sql/pause_rule.sql and sql/remove_rule.sql.
func (b *Backend) PauseGroup(ctx context.Context, db queue.DB, name, group string, paused bool) error {
	if err := driver.CheckGroup(name, group); err != nil {
		return fmt.Errorf("sqlite: pause: %w", err)
	}
	return b.pauseRule(ctx, db, queue.Rule{Queue: name, Group: group, Paused: paused})
}

func (b *Backend) pauseRule(ctx context.Context, db queue.DB, rule queue.Rule) error {
	return b.changeRules(ctx, "pause", db, []queue.Rule{rule}, func(ctx context.Context, db queue.DB, r queue.Rule) error {
		_, err := exec(ctx, db, b.sql["pause_rule"], r.Queue, r.Group, r.Paused)
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
		if _, err := exec(ctx, db, b.sql["rules_changed"]); err != nil {
			return err
		}
		for _, r := range rules {
			if err := change(ctx, db, r); err != nil {
				return err
			}
			if _, err := exec(ctx, db, b.sql["remove_rule"], r.Queue, r.Group); err != nil {
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

// Rules implements [driver.Ruler] with sql/rules.sql.
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
	}, b.sql["rules"])
	return rules, err
}
