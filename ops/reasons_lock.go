package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// locker is a transaction that has locked something. pid is 0 for a prepared one.
type locker struct {
	pid                      int
	prepared                 string
	application, role, state string
	open                     sql.NullFloat64 // for how many seconds; not valid if this role may not see that
	transaction              string          // its number

	isWaiting bool // for another transaction; see chain
	isAwaited bool // by a session that writes what a report does; see heldReports

	// Of a lock on a whole table:
	table         string
	excludesReads bool
}

func (l *locker) targets() []any {
	return []any{&l.pid, &l.prepared, &l.application, &l.role, &l.state, &l.open, &l.transaction}
}

// lasts reports whether the transaction is known to have been open for a while.
func (l locker) lasts() bool { return l.open.Valid && seconds(l.open.Float64) >= briefly }

// isSame reports whether both are one transaction.
func (l locker) isSame(other locker) bool {
	return l.pid == other.pid && l.prepared == other.prepared && l.transaction == other.transaction
}

func (l locker) evidence() string {
	open := fmt.Sprintf("its transaction has been open for %v at least", briefly)
	if l.open.Valid {
		open = fmt.Sprintf("its transaction has been open for %v", short(seconds(l.open.Float64)))
	}
	if l.pid == 0 {
		return fmt.Sprintf("the prepared transaction %q, prepared %v ago", l.prepared, short(seconds(l.open.Float64)))
	}
	return l.session() + ": " + open
}

// session names the session of the transaction, with what is known of it.
func (l locker) session() string {
	var about []string
	if l.application != "" {
		about = append(about, "application "+l.application)
	}
	if l.role != "" {
		about = append(about, "role "+l.role)
	}
	if l.state != "" {
		about = append(about, l.state)
	}
	session := fmt.Sprintf("session %d", l.pid)
	if len(about) > 0 {
		session += " (" + strings.Join(about, ", ") + ")"
	}
	return session
}

func evidenceOf(list []locker) (lines []string) {
	for _, l := range list {
		lines = append(lines, l.evidence())
	}
	return lines
}

func (l locker) remedy() string { return l.remedyFor("it") }

// remedyFor returns how to end the transaction. undone is what that undoes if it is not committed.
func (l locker) remedyFor(undone string) string {
	commit, end := "let it commit", fmt.Sprintf("SELECT pg_terminate_backend(%d)", l.pid)
	if l.pid == 0 {
		commit, end = "COMMIT PREPARED "+literal(l.prepared), "ROLLBACK PREPARED "+literal(l.prepared)
	}
	return fmt.Sprintf("%s; or, which undoes %s: %s", commit, undone, end)
}

// briefly is how long a lock may be held before it is a reason: claims and heartbeats hold theirs
// for milliseconds.
const briefly = time.Second

// lasting returns those of the lockers that read returns that have been open for a while. If the
// role may not see since when a transaction is open, lasting waits and looks again.
func lasting(ctx context.Context, read func(context.Context) ([]locker, error)) ([]locker, error) {
	list, err := read(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(list, func(l locker) bool { return !l.open.Valid }) {
		return slices.DeleteFunc(list, func(l locker) bool { return !l.lasts() }), nil
	}
	if err := pause(ctx, briefly); err != nil {
		return nil, err
	}
	again, err := read(ctx)
	isNew := func(l locker) bool { return !l.lasts() && !slices.ContainsFunc(list, l.isSame) }
	return slices.DeleteFunc(again, isNew), err
}

// pause waits. The error is ctx's.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// findLockers runs a statement that returns lockers, and returns those that have been open for a
// while. right is what the statement needs.
func findLockers(ctx context.Context, q *inquiry, what, right, name string, args ...any) ([]locker, error) {
	list, err := lasting(ctx, func(ctx context.Context) ([]locker, error) { return q.Server.readLockers(ctx, name, args...) })
	if ok, err := q.tryOrAsk(ctx, what, right, err); !ok {
		return nil, err
	}
	return slices.DeleteFunc(list, q.isCommitting), nil
}

func (s *server) readLockers(ctx context.Context, name string, args ...any) (list []locker, err error) {
	err = s.rows(ctx, name, func(r *sql.Rows) error {
		var l locker
		err := r.Scan(l.targets()...)
		list = append(list, l)
		return err
	}, args...)
	if sqlState(err) == internalError { // see row_shares.sql
		return nil, nil
	}
	return list, err
}

// seeLocks is the right that the statements need that only read the server's list of locks.
const seeLocks = "SELECT on pg_locks, as every role has by default"

// whyTableLocked returns who has locked a whole table of errand's, or waits for that: claims wait
// behind both.
func whyTableLocked(ctx context.Context, q *inquiry) ([]Reason, error) {
	return whyLocked(ctx, q, func(locker) bool { return true })
}

// whyUnreadable returns who has locked a table that Explain reads, other than that of jobs, so that
// it cannot go on. A job that does not wait needs none of them.
func whyUnreadable(ctx context.Context, q *inquiry) ([]Reason, error) {
	locked, err := whyLocked(ctx, q, func(l locker) bool { return l.excludesReads && l.table != jobsTable })
	if err != nil || len(locked) == 0 || q.question.ID == 0 {
		return locked, err
	}
	if busy, err := readInTime(ctx, q, func(ctx context.Context) error { return readJob(ctx, q, q.question.ID) }); err != nil || len(busy) > 0 {
		return busy, err
	}
	if q.job != nil && q.job.Status != queue.StatusPending {
		return nil, nil
	}
	return locked, nil
}

const jobsTable = "jobs"

// whyLocked returns the reason for the first wanted lock on a table.
func whyLocked(ctx context.Context, q *inquiry, isWanted func(locker) bool) ([]Reason, error) {
	if q.Server == nil {
		return nil, nil
	}
	list, err := q.Server.tableLocks(ctx)
	if ok, err := q.tryOrAsk(ctx, "who has locked a table", seeLocks, err); !ok {
		return nil, err
	}
	i := slices.IndexFunc(list, func(l locker) bool { return isWanted(l) && !q.isCommitting(l) })
	if i < 0 {
		return nil, nil
	}
	l := list[i]
	chain, err := q.Server.chain(ctx, l)
	if err != nil {
		return nil, err
	}
	r := Reason{ID: "table-locked", Level: Fail, Evidence: chain.evidence(), Remedy: chain.remedy(),
		Verdict: fmt.Sprintf("A transaction has locked the table of %s, or waits to lock it, so %s.", l.table, l.blocks())}
	if len(chain) > 1 {
		r.Verdict = fmt.Sprintf("An open transaction (%s) blocks %s, which has locked the table of %s or waits to lock it. Behind that %s.", chain[0].name(), l.name(), l.table, l.blocks())
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
	right := fmt.Sprintf("SELECT (xmax) on %s.jobs, as errand_observer and errand_worker of docs/roles.sql have", q.Server.tables.Schema)
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
	list, err = findLockers(ctx, q, "which transactions have locked jobs", seeLocks, "writers", jobsTable, true)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return []Reason{{ID: "perhaps-locked", Level: Warn, Verdict: fmt.Sprintf("An open transaction has locked some jobs, perhaps job %d: claims pass over those.", q.job.ID),
		Evidence: []string{list[0].evidence()}, Remedy: list[0].remedy()}}, nil
}

// whyRowHeld returns the reason for lockers of the job's row. If the first one waits, what it waits
// for comes first.
func whyRowHeld(ctx context.Context, q *inquiry, list []locker) ([]Reason, error) {
	chain, err := q.Server.chain(ctx, list[0])
	if err != nil {
		return nil, err
	}
	so := "claims pass over it"
	r := Reason{ID: "row-locked", Level: Warn, Evidence: append(chain.evidence(), evidenceOf(list[1:])...), Remedy: chain.remedy()}
	for _, l := range list[1:] {
		r.Remedy += fmt.Sprintf(". Likewise for %s: %s", l.name(), l.remedy())
	}
	if q.job.Status == queue.StatusRunning {
		so = "its worker cannot extend its lease, which has expired, and no worker reclaims it"
		if left := q.job.LeaseEnds.Sub(q.at); left > 0 {
			so = fmt.Sprintf("its worker cannot extend its lease, which ends in %v", short(left))
		}
		if holder, isKnown := findWorker(q, q.job.Worker); isKnown && q.isReporting(holder) {
			r.Evidence = append(r.Evidence, fmt.Sprintf("the worker %s reported itself %v ago, so the transaction may be that of the job's own handler, which has settled the job first (SettleFirst)", holder.Name, short(holder.Silent)))
			r.Remedy = "if it is the handler's own transaction, wait until the handler returns. If it is another one: " + r.Remedy
		}
	}
	r.Verdict = fmt.Sprintf("An open transaction has locked job %d, so %s.", q.job.ID, so)
	return []Reason{r}, nil
}
