package ops

import (
	"context"
	"database/sql"
	"slices"
	"time"
)

// needTable are the checks that read the table of jobs. While a session has locked it, each would
// wait for that session.
var needTable = []string{"drift", "table", "claim-cost", "autovacuum", "stale-leases", "retention", "backlog", "nobody-serves", "schedules"}

// withoutLocked returns the checks, of which those that need the table of jobs skip it if a session
// has locked it.
func (d *doctor) withoutLocked(ctx context.Context, checks []check) []check {
	if d.server == nil {
		return checks
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if _, isLocked, err := d.server.tableLocker(ctx); err != nil || !isLocked {
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

// tableLocker returns a transaction that has locked the whole table of jobs for longer than briefly,
// or waits for that. If the role may not see since when a transaction is open, tableLocker waits and
// looks again.
func (s *server) tableLocker(ctx context.Context) (holder locker, isLocked bool, err error) {
	list, err := s.tableLocks(ctx)
	if i := slices.IndexFunc(list, locker.lasts); i >= 0 || err != nil {
		return at(list, i), i >= 0, err
	}
	if !slices.ContainsFunc(list, func(l locker) bool { return !l.open.Valid }) {
		return locker{}, false, nil
	}
	select {
	case <-time.After(briefly):
	case <-ctx.Done():
		return locker{}, false, ctx.Err()
	}
	again, err := s.tableLocks(ctx)
	i := slices.IndexFunc(again, func(l locker) bool { return l.lasts() || slices.ContainsFunc(list, l.isSame) })
	return at(again, i), i >= 0, err
}

// at returns an element of the list, or the zero locker if i is below 0.
func at(list []locker, i int) locker {
	if i < 0 {
		return locker{}
	}
	return list[i]
}

// tableLocks returns the transactions that have locked the whole table of jobs, or wait for that.
func (s *server) tableLocks(ctx context.Context) (list []locker, err error) {
	err = s.rows(ctx, "table_lock", func(r *sql.Rows) error {
		var l locker
		err := r.Scan(l.targets()...)
		list = append(list, l)
		return err
	})
	return list, err
}
