package explain

import (
	"context"
	"fmt"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// findLockers runs a statement that returns lockers, and returns those that have been open for a
// while. right is what the statement needs.
func findLockers(ctx context.Context, q *inquiry, what, right, name string, args ...any) ([]reader.Locker, error) {
	list, err := reader.Lasting(ctx, func(ctx context.Context) ([]reader.Locker, error) { return q.Server.ReadLockers(ctx, name, args...) })
	if ok, err := q.tryOrAsk(ctx, what, right, err); !ok {
		return nil, err
	}
	return slices.DeleteFunc(list, q.isCommitting), nil
}

// seeLocks is the right that the statements need that only read the server's list of locks.
const seeLocks = "SELECT on pg_locks, as every role has by default"

// whyTableLocked returns who has locked a whole table of errand's, or waits for that: claims wait
// behind both.
func whyTableLocked(ctx context.Context, q *inquiry) ([]Reason, error) {
	return whyLocked(ctx, q, func(reader.Locker) bool { return true })
}

// whyLocked returns the reason for the first wanted lock on a table.
func whyLocked(ctx context.Context, q *inquiry, isWanted func(reader.Locker) bool) ([]Reason, error) {
	if q.Server == nil {
		return nil, nil
	}
	list, err := q.Server.TableLocks(ctx)
	if ok, err := q.tryOrAsk(ctx, "who has locked a table", seeLocks, err); !ok {
		return nil, err
	}
	i := slices.IndexFunc(list, func(l reader.Locker) bool { return isWanted(l) && !q.isCommitting(l) })
	if i < 0 {
		return nil, nil
	}
	l := list[i]
	chain, err := q.Server.Chain(ctx, l)
	if err != nil {
		return nil, err
	}
	r := Reason{ID: "table-locked", Level: ops.Fail, Evidence: chain.Evidence(), Remedy: chain.Remedy(),
		Verdict: fmt.Sprintf("A transaction has locked the table of %s, or waits to lock it, so %s.", l.Table, l.Blocks())}
	if len(chain) > 1 {
		r.Verdict = fmt.Sprintf("An open transaction (%s) blocks %s, which has locked the table of %s or waits to lock it. Behind that %s.", chain[0].Name(), l.Name(), l.Table, l.Blocks())
	}
	return []Reason{r}, nil
}

// whyRowLocked returns who has locked the job's row: claims pass over it. A role that may not see
// that learns who may have.
func whyRowLocked(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil {
		return nil, nil
	}
	unknown := len(q.unknown)
	right := fmt.Sprintf("SELECT (xmax) on %s.jobs, as errand_observer and errand_worker of docs/roles.sql have", q.Server.Tables.Schema)
	list, err := findLockers(ctx, q, "who has locked the job", right, "row_lock", q.job.ID)
	if err == nil && len(list) == 0 && len(q.unknown) == unknown {
		list, err = findLockers(ctx, q, "who has locked the job", right, "row_shares", q.job.ID)
	}
	switch {
	case err != nil:
		return nil, err
	case len(list) > 0:
		return whyRowHeld(ctx, q, list)
	case len(q.unknown) == unknown:
		return nil, nil
	}
	list, err = findLockers(ctx, q, "which transactions have locked jobs", seeLocks, "writers", reader.JobsTable, true)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return []Reason{{ID: "perhaps-locked", Level: ops.Warn, Verdict: fmt.Sprintf("An open transaction has locked some jobs, perhaps job %d: claims pass over those.", q.job.ID),
		Evidence: []string{list[0].Evidence()}, Remedy: list[0].Remedy()}}, nil
}

// whyRowHeld returns the reason for lockers of the job's row. If the first one waits, what it waits
// for comes first.
func whyRowHeld(ctx context.Context, q *inquiry, list []reader.Locker) ([]Reason, error) {
	chain, err := q.Server.Chain(ctx, list[0])
	if err != nil {
		return nil, err
	}
	so := "claims pass over it"
	r := Reason{ID: "row-locked", Level: ops.Warn, Evidence: append(chain.Evidence(), reader.ListEvidence(list[1:])...), Remedy: chain.Remedy()}
	for _, l := range list[1:] {
		r.Remedy += fmt.Sprintf(". Likewise for %s: %s", l.Name(), l.Remedy())
	}
	if q.job.Status == queue.StatusRunning {
		so = "its worker cannot extend its lease, which has expired, and no worker reclaims it"
		if left := q.job.LeaseEnds.Sub(q.at); left > 0 {
			so = fmt.Sprintf("its worker cannot extend its lease, which ends in %v", words.Short(left))
		}
		if holder, isKnown := findWorker(q, q.job.Worker); isKnown && q.isReporting(holder) {
			r.Evidence = append(r.Evidence, fmt.Sprintf("the worker %s reported itself %v ago, so the transaction may be that of the job's own handler, which has settled the job first (SettleFirst)", holder.Name, words.Short(holder.Silent)))
			r.Remedy = "if it is the handler's own transaction, wait until the handler returns. If it is another one: " + r.Remedy
		}
	}
	r.Verdict = fmt.Sprintf("An open transaction has locked job %d, so %s.", q.job.ID, so)
	return []Reason{r}, nil
}

// whyWriteLocked returns whether a transaction keeps the write lock, so that nothing is claimed.
func whyWriteLocked(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.File == nil {
		return nil, nil
	}
	isFree, err := q.File.TryWriteLock(ctx)
	if err != nil || isFree {
		return nil, err
	}
	return []Reason{{ID: "write-locked", Level: ops.Fail, Verdict: "Another transaction has SQLite's write lock, so all claims and heartbeats wait.",
		Evidence: []string{fmt.Sprintf("it was not free within %v", reader.LockWait)}, Remedy: "end the transaction that has written and is still open"}}, nil
}
