package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// needTable are the checks that read the table of jobs. While a session has locked it, each would
// wait for that session.
var needTable = []string{"drift", "sequences", "table", "claim-cost", "autovacuum", "stale-leases", "retention", "backlog", "nobody-serves", "schedules"}

// skipLocked returns the checks, of which those that need the table of jobs skip it if a session
// has locked it.
func skipLocked(ctx context.Context, d *doctor, checks []check) []check {
	if d.Server == nil {
		return checks
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	locks, err := d.Server.tableLocks(ctx)
	d.hasLocks = len(locks) > 0
	if err != nil || !slices.ContainsFunc(locks, func(l locker) bool { return l.table == jobsTable }) {
		return checks // the check waits tells of an error
	}
	list := slices.Clone(checks)
	for i, c := range list {
		if slices.Contains(needTable, c.id) {
			list[i].look = func(context.Context, *doctor) (finding, error) {
				return finding{Skipped, "the table of jobs is locked", "see the check waits for the session that has locked it"}, nil
			}
		}
	}
	return list
}

// tableLocks returns the transactions that have locked a whole table of errand's for longer than
// briefly, or wait for that. Those of the table of jobs come first.
func (s *server) tableLocks(ctx context.Context) ([]locker, error) {
	return lasting(ctx, func(ctx context.Context) (list []locker, err error) {
		err = s.rows(ctx, "table_lock", func(r *sql.Rows) error {
			var l locker
			err := r.Scan(append(l.targets(), &l.table, &l.excludesReads)...)
			list = append(list, l)
			return err
		})
		return list, err
	})
}

// findLockedTable returns the finding for a lock on a whole table; none if there is no such lock.
func findLockedTable(ctx context.Context, s *server) (finding, error) {
	list, err := s.tableLocks(ctx)
	if err != nil || len(list) == 0 {
		return finding{}, err
	}
	holder := list[0]
	chain, err := s.chain(ctx, holder)
	if err != nil {
		return finding{}, err
	}
	blocks := "claims wait"
	if holder.table != jobsTable {
		blocks = holder.blocks()
	}
	return finding{Fail, fmt.Sprintf("the whole table of %s is locked, or a session waits to lock it, so %s: %s", holder.table, blocks, chain.text()), chain.remedy()}, nil
}
