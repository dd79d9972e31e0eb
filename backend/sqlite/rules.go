package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync/atomic"

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
	after   string // the group behind which the next claim begins
	hasMore bool   // there are groups, or jobs without one, that it has not looked at
	pass    pass   // for jobs without a group
}

// knownRules are the rules of one version.
type knownRules struct {
	version int64
	queues  map[string]*limits.Queue // the limited queues
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
func (b *Backend) Rules(ctx context.Context) ([]queue.Rule, error) {
	return readAll(ctx, b, "list rules", sqlkit.ScanRule, b.sql["rules"])
}

func (b *Backend) readRules(ctx context.Context, db queue.DB) ([]queue.Rule, error) {
	return queryAll(ctx, db, sqlkit.ScanRule, b.sql["rules"])
}
