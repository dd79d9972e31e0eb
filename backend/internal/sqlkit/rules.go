package sqlkit

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/errandhq/errand/queue"
)

// CheckedRules returns the rules that SetRules is to set: ordered by queue and group, with the
// queue's name filled in. Of several rules for one group it returns the last. The error is a
// [*queue.InvalidError].
func CheckedRules(rules []queue.Rule) ([]queue.Rule, error) {
	rules = slices.Clone(rules)
	for i := range rules {
		if err := rules[i].Check(); err != nil {
			return nil, err
		}
		rules[i].Queue = cmp.Or(rules[i].Queue, queue.DefaultQueue)
	}
	slices.Reverse(rules)
	order := func(a, b queue.Rule) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group))
	}
	slices.SortStableFunc(rules, order)
	return slices.CompactFunc(rules, func(a, b queue.Rule) bool { return order(a, b) == 0 }), nil
}

// ScanRule reads a row of sql/rules.sql.
func ScanRule(rows *sql.Rows, r *queue.Rule) error {
	var holdsDead bool
	err := rows.Scan(&r.Queue, &r.Group, &r.Paused, &r.Running, &r.PerGroup, &r.Share, &holdsDead,
		&r.Rate.Jobs, (*int64)(&r.Rate.Per), &r.Rate.Burst, &r.GroupRate.Jobs, (*int64)(&r.GroupRate.Per), &r.GroupRate.Burst)
	if holdsDead {
		r.OnDead = queue.HoldDead
	}
	return err
}
