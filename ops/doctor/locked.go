package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
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
	ctx, cancel := context.WithTimeout(ctx, reader.CheckTimeout)
	defer cancel()
	locks, err := d.Server.TableLocks(ctx)
	d.hasLocks = len(locks) > 0
	if err != nil || !slices.ContainsFunc(locks, func(l reader.Locker) bool { return l.Table == reader.JobsTable }) {
		return checks // the check waits tells of an error
	}
	list := slices.Clone(checks)
	for i, c := range list {
		if slices.Contains(needTable, c.id) {
			list[i].look = func(context.Context, *doctor) (finding, error) {
				return finding{ops.Skipped, "the table of jobs is locked", "see the check waits for the session that has locked it"}, nil
			}
		}
	}
	return list
}

// findLockedTable returns the finding for a lock on a whole table; none if there is no such lock.
func findLockedTable(ctx context.Context, s *reader.Server) (finding, error) {
	list, err := s.TableLocks(ctx)
	if err != nil || len(list) == 0 {
		return finding{}, err
	}
	holder := list[0]
	chain, err := s.Chain(ctx, holder)
	if err != nil {
		return finding{}, err
	}
	blocks := "claims wait"
	if holder.Table != reader.JobsTable {
		blocks = holder.Blocks()
	}
	return finding{ops.Fail, fmt.Sprintf("the whole table of %s is locked, or a session waits to lock it, so %s: %s", holder.Table, blocks, chain.Text()), chain.Remedy()}, nil
}
