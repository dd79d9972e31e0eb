package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// rules is what a Backend remembers of the rules, and of the claims of limited queues. Its zero
// value knows no rules.
type rules struct {
	latest atomic.Pointer[knownRules]
	limits.LastClaims[lastClaim]
}

// lastClaim is what the last claim of a limited queue came to, beside what limits knows.
type lastClaim struct {
	after        string    // the group behind which the next claim begins
	afterOrdered string    // the same for ordered jobs
	busy         int       // how many claims since then have not looked, because other claims held the lock
	hold         time.Time // when the queue's own rate has tokens; until then no claim finds a job
}

// knownRules are the rules of one version, as far as a claim has to know them.
type knownRules struct {
	version int64
	limited map[string]limitedQueue
}

// limitedQueue is what a claim has to know of a queue's rules.
type limitedQueue struct {
	isBounded bool // a rule bounds how many jobs run or start
	hasTurns  bool // groups take turns
}

func (r *rules) known() *knownRules {
	if known := r.latest.Load(); known != nil {
		return known
	}
	return &knownRules{}
}

// isLimited reports whether the queue has rules.
func (k *knownRules) isLimited(name string) bool {
	_, ok := k.limited[name]
	return ok
}

// firstLimited returns the first of the queues that is limited.
func (k *knownRules) firstLimited(queues []string) (name string, ok bool) {
	i := slices.IndexFunc(queues, k.isLimited)
	if i < 0 {
		return "", false
	}
	return queues[i], true
}

// noteBusy records that a claim of the queue has not looked, because other claims held the lock.
func (r *rules) noteBusy(name string) {
	if r.Change(name, func(c *limits.LastClaim[lastClaim]) { c.Own.busy++ }) {
		return
	}
	r.Note(name, limits.LastClaim[lastClaim]{Own: lastClaim{busy: 1}})
}

// bound returns until when a worker of the queues may sleep although it is not notified: as
// LastClaims.Bound, or less if a claim has not looked.
func (r *rules) bound(queues []string, next time.Duration) time.Duration {
	next = r.Bound(queues, next)
	for _, name := range queues {
		if r.Of(name).Own.busy > 0 && (next < 0 || next > limits.WalkTime) {
			next = limits.WalkTime
		}
	}
	return next
}

// longestHold bounds how long claims of a queue without tokens are left out: the rule may change.
const longestHold = 50 * time.Millisecond

// isHeld reports whether the queue's own rate has no tokens yet.
func (r *rules) isHeld(name string, now time.Time) bool { return r.Of(name).Own.hold.After(now) }

// areHeld returns how long until one of the queues may have jobs, if they all have rates without
// tokens now. ok is false otherwise.
func (r *rules) areHeld(queues []string, now time.Time) (wait time.Duration, ok bool) {
	wait = longestHold
	for _, name := range queues {
		left := r.Of(name).Own.hold.Sub(now)
		if left <= 0 {
			return 0, false
		}
		wait = min(wait, left)
	}
	return wait, true
}

// endHolds makes the next claims look again.
func (r *rules) endHolds() {
	r.ChangeAll(func(c *limits.LastClaim[lastClaim]) { c.Own.hold, c.Own.busy = time.Time{}, 0 })
}

// refreshRules reads what claims have to know, on the backend's own handle.
func (b *Backend) refreshRules(ctx context.Context) (known *knownRules, err error) {
	err = b.run(ctx, "claim", nil, func(db queue.DB) error {
		known, err = b.readRules(ctx, db)
		return err
	})
	if err == nil {
		b.rules.latest.Store(known)
		b.rules.endHolds()
	}
	return known, err
}

// readRules reads through db, with sql/rules_known.sql, what claims have to know.
func (b *Backend) readRules(ctx context.Context, db queue.DB) (*knownRules, error) {
	known := &knownRules{limited: make(map[string]limitedQueue)}
	err := sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
		var name sql.NullString
		var rules limitedQueue
		err := rows.Scan(&known.version, &name, &rules.isBounded, &rules.hasTurns)
		if name.Valid {
			known.limited[name.String] = rules
		}
		return err
	}, b.sql["rules_known"])
	if err != nil {
		return nil, err
	}
	return known, nil
}

// SetRules implements [driver.Ruler] with sql/set_rules.sql.
func (b *Backend) SetRules(ctx context.Context, db queue.DB, rules ...queue.Rule) error {
	rules, err := sqlkit.CheckedRules(rules)
	if err != nil {
		return fmt.Errorf("postgres: set rules: %w", err)
	}
	if len(rules) == 0 {
		return nil
	}
	var queues, groups, paused, running, perGroup, share, holdDead array
	var rate, groupRate rateColumns
	for _, r := range rules {
		queues.string(r.Queue)
		groups.string(r.Group)
		paused.bool(r.Paused)
		running.int(int64(r.Running))
		perGroup.int(int64(r.PerGroup))
		share.int(int64(r.Share))
		holdDead.bool(r.OnDead == queue.HoldDead)
		rate.add(r.Rate)
		groupRate.add(r.GroupRate)
	}
	err = b.run(ctx, "set rules", db, func(db queue.DB) error {
		_, err := db.ExecContext(ctx, b.sql["set_rules"], queues.String(), groups.String(), paused.String(),
			running.String(), perGroup.String(), share.String(), holdDead.String(),
			rate.jobs.String(), rate.per.String(), rate.burst.String(),
			groupRate.jobs.String(), groupRate.per.String(), groupRate.burst.String(), !b.options.Silent)
		return err
	})
	b.rules.endHolds()
	return err
}

// rateColumns are the columns of the rates of rules.
type rateColumns struct{ jobs, per, burst array }

func (c *rateColumns) add(r queue.Rate) {
	c.jobs.int(int64(r.Jobs))
	c.per.int(int64(r.Per))
	c.burst.int(int64(r.Burst))
}

// Rules implements [driver.Ruler] with sql/rules.sql.
func (b *Backend) Rules(ctx context.Context) ([]queue.Rule, error) {
	return readAll(ctx, b, "list rules", sqlkit.ScanRule, b.sql["rules"])
}
