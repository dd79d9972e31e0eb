package ops

import (
	"context"
	"database/sql"
	"slices"
)

// needTable are the checks that read the table of jobs. While a session has locked it, each would
// wait for that session.
var needTable = []string{"drift", "table", "claim-cost", "autovacuum", "stale-leases", "retention", "backlog", "nobody-serves"}

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
// or waits for that.
func (s *server) tableLocker(ctx context.Context) (holder locker, isLocked bool, err error) {
	err = s.rows(ctx, "table_lock", func(r *sql.Rows) error {
		var l locker
		err := r.Scan(l.targets()...)
		if err == nil && !isLocked && l.lasts() {
			holder, isLocked = l, true
		}
		return err
	})
	return holder, isLocked, err
}
