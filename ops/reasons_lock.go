package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// locker is a transaction that has locked something. pid is 0 for a prepared one.
type locker struct {
	pid                      int
	prepared                 string
	application, role, state string
	open                     sql.NullFloat64 // for how many seconds; not valid if this role may not see that
	transaction              string          // its number
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

// lockers runs a statement that returns lockers, and returns those that have been open for a while.
// If the role may not see since when a transaction is open, lockers waits and looks again. right is
// what the statement needs.
func (f *facts) lockers(ctx context.Context, what, right, name string, args ...any) ([]locker, error) {
	list, err := f.readLockers(ctx, name, args...)
	if ok, err := f.tryOrAsk(ctx, what, right, err); !ok {
		return nil, err
	}
	if slices.ContainsFunc(list, func(l locker) bool { return !l.open.Valid }) {
		select {
		case <-time.After(briefly):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		again, err := f.readLockers(ctx, name, args...)
		if ok, err := f.tryOrAsk(ctx, what, right, err); !ok {
			return nil, err
		}
		isNew := func(l locker) bool { return !l.lasts() && !slices.ContainsFunc(list, l.isSame) }
		return slices.DeleteFunc(again, isNew), nil
	}
	return slices.DeleteFunc(list, func(l locker) bool { return !l.lasts() }), nil
}

func (f *facts) readLockers(ctx context.Context, name string, args ...any) (list []locker, err error) {
	err = f.server.rows(ctx, name, func(r *sql.Rows) error {
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

// tableLocked returns who has locked the whole table, or waits for that: claims wait behind both.
func (f *facts) tableLocked(ctx context.Context) ([]Reason, error) {
	if f.server == nil {
		return nil, nil
	}
	list, err := f.lockers(ctx, "who has locked the table", seeLocks, "table_lock")
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return []Reason{{ID: "table-locked", Level: Fail, Verdict: "A transaction has locked the table of jobs, or waits to lock it, so all claims wait.",
		Evidence: []string{list[0].evidence()}, Remedy: list[0].remedy()}}, nil
}

// rowLocked returns who has locked the job's row: claims pass over it. A role that may not see that
// learns who may have.
func (f *facts) rowLocked(ctx context.Context) ([]Reason, error) {
	if f.server == nil {
		return nil, nil
	}
	unknown := len(f.unknown)
	right := fmt.Sprintf("SELECT (xmax) on %s.jobs, as errand_observer and errand_worker of docs/roles.sql have", f.server.tables.Schema)
	list, err := f.lockers(ctx, "who has locked the job", right, "row_lock", f.job.ID)
	if err == nil && len(list) == 0 && len(f.unknown) == unknown {
		list, err = f.lockers(ctx, "who has locked the job", right, "row_shares", f.job.ID)
	}
	switch {
	case err != nil:
		return nil, err
	case len(list) > 0:
		return []Reason{{ID: "row-locked", Level: Warn, Verdict: fmt.Sprintf("An open transaction has locked job %d, so claims pass over it.", f.job.ID),
			Evidence: evidenceOf(list), Remedy: list[0].remedy()}}, nil
	case len(f.unknown) == unknown:
		return nil, nil
	}
	list, err = f.lockers(ctx, "which transactions have locked jobs", seeLocks, "writers", true)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return []Reason{{ID: "perhaps-locked", Level: Warn, Verdict: fmt.Sprintf("An open transaction has locked some jobs, perhaps job %d: claims pass over those.", f.job.ID),
		Evidence: []string{list[0].evidence()}, Remedy: list[0].remedy()}}, nil
}
