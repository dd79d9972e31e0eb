package reader

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/ops/internal/words"
)

// Locker is a transaction that has locked something. Pid is 0 for a prepared one.
type Locker struct {
	Pid                      int
	prepared                 string
	application, role, state string
	open                     sql.NullFloat64 // for how many seconds; not valid if this role may not see that
	transaction              string          // its number

	isWaiting bool // for another transaction; see Chain
	isAwaited bool // by a session that writes what a report does; see HeldReports

	// Of a lock on a whole table:
	Table         string
	ExcludesReads bool
}

// WaitedFor is the evidence for a locker of waits_seen.sql, which does not know since when the
// transaction is open: open is for how long another session has waited for it.
func (l Locker) WaitedFor() string {
	return fmt.Sprintf("%s: others have waited for up to %v", l.session(), words.Short(words.Seconds(l.open.Float64)))
}

// SchedulesHeld returns the transaction that has locked schedules for longest, behind what it waits
// for. Workers that fire schedules lock them for milliseconds. It is empty if there is none.
func (s *Server) SchedulesHeld(ctx context.Context) (Chain, error) {
	list, err := Lasting(ctx, func(ctx context.Context) ([]Locker, error) {
		return s.ReadLockers(ctx, "writers", "schedules", true)
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return s.Chain(ctx, list[0])
}

// TableLocks returns the transactions that have locked a whole table of errand's for longer than
// briefly, or wait for that. Those of the table of jobs come first.
func (s *Server) TableLocks(ctx context.Context) ([]Locker, error) {
	return Lasting(ctx, func(ctx context.Context) (list []Locker, err error) {
		err = s.Rows(ctx, "table_lock", func(r *sql.Rows) error {
			var l Locker
			err := r.Scan(append(l.Targets(), &l.Table, &l.ExcludesReads)...)
			list = append(list, l)
			return err
		})
		return list, err
	})
}

// Targets returns where to scan the columns that each statement about lockers returns.
func (l *Locker) Targets() []any {
	return []any{&l.Pid, &l.prepared, &l.application, &l.role, &l.state, &l.open, &l.transaction}
}

// Lasts reports whether the transaction is known to have been open for a while.
func (l Locker) Lasts() bool { return l.open.Valid && words.Seconds(l.open.Float64) >= briefly }

// isSame reports whether both are one transaction.
func (l Locker) isSame(other Locker) bool {
	return l.Pid == other.Pid && l.prepared == other.prepared && l.transaction == other.transaction
}

// Evidence says in a line since when the transaction is open, and in which session.
func (l Locker) Evidence() string {
	open := fmt.Sprintf("its transaction has been open for %v at least", briefly)
	if l.open.Valid {
		open = fmt.Sprintf("its transaction has been open for %v", words.Short(words.Seconds(l.open.Float64)))
	}
	if l.Pid == 0 {
		return fmt.Sprintf("the prepared transaction %q, prepared %v ago", l.prepared, words.Short(words.Seconds(l.open.Float64)))
	}
	return l.session() + ": " + open
}

// session names the session of the transaction, with what is known of it.
func (l Locker) session() string {
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
	session := fmt.Sprintf("session %d", l.Pid)
	if len(about) > 0 {
		session += " (" + strings.Join(about, ", ") + ")"
	}
	return session
}

// ListEvidence says the same of each of the transactions.
func ListEvidence(list []Locker) (lines []string) {
	for _, l := range list {
		lines = append(lines, l.Evidence())
	}
	return lines
}

// Remedy returns how to end the transaction.
func (l Locker) Remedy() string { return l.RemedyFor("it") }

// RemedyFor returns how to end the transaction. undone is what that undoes if it is not committed.
func (l Locker) RemedyFor(undone string) string {
	commit, end := "let it commit", fmt.Sprintf("SELECT pg_terminate_backend(%d)", l.Pid)
	if l.Pid == 0 {
		commit, end = "COMMIT PREPARED "+words.Literal(l.prepared), "ROLLBACK PREPARED "+words.Literal(l.prepared)
	}
	return fmt.Sprintf("%s; or, which undoes %s: %s", commit, undone, end)
}

// briefly is how long a lock may be held before it is a reason: claims and heartbeats hold theirs
// for milliseconds.
const briefly = time.Second

// Lasting returns those of the lockers that read returns that have been open for a while. If the
// role may not see since when a transaction is open, lasting waits and looks again.
func Lasting(ctx context.Context, read func(context.Context) ([]Locker, error)) ([]Locker, error) {
	list, err := read(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(list, func(l Locker) bool { return !l.open.Valid }) {
		return slices.DeleteFunc(list, func(l Locker) bool { return !l.Lasts() }), nil
	}
	if err := pause(ctx, briefly); err != nil {
		return nil, err
	}
	again, err := read(ctx)
	isNew := func(l Locker) bool { return !l.Lasts() && !slices.ContainsFunc(list, l.isSame) }
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

// ReadLockers runs a statement that returns lockers.
func (s *Server) ReadLockers(ctx context.Context, name string, args ...any) (list []Locker, err error) {
	err = s.Rows(ctx, name, func(r *sql.Rows) error {
		var l Locker
		err := r.Scan(l.Targets()...)
		list = append(list, l)
		return err
	}, args...)
	if SQLState(err) == internalError { // see row_shares.sql
		return nil, nil
	}
	return list, err
}

// JobsTable is the name of the table of jobs.
const JobsTable = "jobs"

// BeganAfter reports whether the transaction is known to have begun after something that happened
// so long ago. It leaves out a moment: the claim that started a job takes one. Of a prepared
// transaction only the time is known when it was prepared.
func (l Locker) BeganAfter(age time.Duration) bool {
	return l.Pid != 0 && l.open.Valid && words.Seconds(l.open.Float64)+briefly < age
}
