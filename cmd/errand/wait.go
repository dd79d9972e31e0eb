package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// cancelWait is how long a command that has run out of time, or was interrupted, waits for the
// server to end its statement.
const cancelWait = time.Second

// bounded makes an action that ends within --timeout.
func (a *app) bounded(f action) action {
	return func(ctx context.Context, d *dburl.Database, args []string) error {
		return a.step(ctx, d, func(ctx context.Context) error { return f(ctx, d, args) })
	}
}

// step runs f, a step of a command, and ends its context after --timeout. The error then says what
// f has waited for.
func (a *app) step(ctx context.Context, d *dburl.Database, f func(ctx context.Context) error) error {
	return a.stepFor(ctx, d, 0, f)
}

// stepFor is step for a change of one pending job, of which explain can tell more. 0 means others.
func (a *app) stepFor(ctx context.Context, d *dburl.Database, pending int64, f func(ctx context.Context) error) error {
	inner, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	found := make(chan *heldLock, 1)
	look := time.AfterFunc(a.timeout/2, func() { found <- a.watchLock(inner, d) })
	err := f(inner)
	hasLooked := !look.Stop()
	if ctx.Err() != nil || !hasRunOut(inner, err) {
		return err
	}
	var lock *heldLock
	if hasLooked {
		cancel()
		lock = <-found
	}
	waited := a.explainWait(d, lock, pending, err)
	if errors.Is(err, queue.ErrUnknown) {
		return &exitError{exitUnknown, fmt.Errorf("not known whether it was done, look before you repeat it: %w", waited)}
	}
	if a.acts > 0 && a.commits == 0 {
		return fmt.Errorf("nothing was changed: %w", waited)
	}
	return waited
}

// unknownText tells what the user cannot know after err: "" if there is nothing.
func unknownText(err error) string {
	if !errors.Is(err, queue.ErrUnknown) {
		return ""
	}
	return ". It is not known whether it was done: look before you repeat it"
}

// noteRepeat says whether the command may be repeated, if err is that it is not known whether it
// was done.
func (a *app) noteRepeat(err error) {
	own, isOwn := errors.AsType[*exitError](err)
	if a.repeatAdvice != "" && (errors.Is(err, queue.ErrUnknown) || isOwn && own.code == exitUnknown) {
		a.notef("%s", a.repeatAdvice)
	}
}

// watchLock looks for whose lock this program waits, until it has found it or ctx ends. Later there
// is nothing to see: the server has ended the statement that waited.
func (a *app) watchLock(ctx context.Context, d *dburl.Database) *heldLock {
	for {
		if lock := findLock(ctx, d); lock != nil || ctx.Err() != nil {
			return lock
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(a.timeout/5, time.Second)):
		}
	}
}

// hasRunOut reports whether err, the error of a step, means that its time was over.
func hasRunOut(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	var own *exitError
	if errors.As(err, &own) {
		return false
	}
	switch sqlState(err) {
	case queryCanceled, lockNotAvailable:
		return true
	}
	return ctx.Err() != nil
}

// explainWait returns the error of a step whose time is over. Of locks, doctor looks for those on
// the table of jobs, and explain also for that on the row of a pending job.
func (a *app) explainWait(d *dburl.Database, lock *heldLock, pending int64, err error) error {
	isRow := lock != nil && lock.table == "" && !lock.isAdvisory
	look := a.command("doctor")
	if pending != 0 && (isRow || lock == nil) {
		look = a.command("explain", strconv.FormatInt(pending, 10))
	}
	switch {
	case isRow && pending == 0:
		return refusedf("waited %v for %s. %s", a.timeout, lock, lock.remedy())
	case lock != nil:
		return refusedf("waited %v for %s. Look further with: %s", a.timeout, lock, look)
	case d.Scheme == dburl.SQLite:
		return refusedf("waited %v for the SQLite file: a program has locked it, perhaps in a transaction that it has not ended. --timeout waits longer", a.timeout)
	case sqlState(err) == lockNotAvailable:
		return refusedf("waited %v for what a transaction has locked. Look further with: %s", a.timeout, look)
	}
	return fmt.Errorf("the database has not answered within %v. --timeout waits longer; look further with: %s", a.timeout, a.command("doctor"))
}

// heldLock is a lock of another session, for which this program waits.
type heldLock struct {
	table      string // "" for a row, and for an advisory lock
	isAdvisory bool   // as migrations take one
	lockOwner
	// before is the session that comes before this program, if the owner is a different one, for
	// which that session waits. Its pid is 0 if there is none.
	before lockOwner
}

// lockOwner is the session that has a lock.
type lockOwner struct {
	pid         int // of its process; 0 for a prepared transaction
	application string
}

func (o lockOwner) String() string {
	if o.pid == 0 {
		return "a prepared transaction"
	}
	text := fmt.Sprintf("session %d", o.pid)
	if name := strings.TrimSpace(o.application); name != "" {
		text += " (" + name + ")"
	}
	return text
}

// String says for which lock of which session.
func (l *heldLock) String() string {
	what := "a row"
	switch {
	case l.isAdvisory:
		what = "an advisory lock"
	case l.table != "":
		what = "a lock on " + l.table
	}
	if l.before.pid != 0 {
		return fmt.Sprintf("%s behind %s, which waits for %s", what, l.before, l.lockOwner)
	}
	return fmt.Sprintf("%s, which %s holds", what, l.lockOwner)
}

// remedy says how the lock ends.
func (l *heldLock) remedy() string {
	if l.pid == 0 {
		return "pg_prepared_xacts lists such transactions: COMMIT PREPARED or ROLLBACK PREPARED ends one"
	}
	return fmt.Sprintf("End its transaction, or: SELECT pg_terminate_backend(%d)", l.pid)
}

// lockHolders returns for what a session of this program waits: the name of the table, empty for a
// row; whether the lock is an advisory one; the process ID and the application of the session that
// waits for none itself and has to end first; and those of the session directly before this
// program's, if that is a different one. The ID 0 is that of a prepared transaction.
const lockHolders = `
WITH RECURSIVE waiter AS (
	SELECT w.pid, CASE WHEN l.locktype = 'tuple' THEN '' ELSE coalesce(l.relation::regclass::text, '') END AS relation, l.locktype = 'advisory' AS is_advisory
	FROM pg_stat_activity w
	JOIN pg_locks l ON l.pid = w.pid AND NOT l.granted
	WHERE w.datname = current_database() AND w.usename = current_user AND w.application_name = $1 AND w.wait_event_type = 'Lock'
	ORDER BY w.query_start
	LIMIT 1
), chain AS (
	SELECT h.pid, h.pid AS before, 1 AS depth FROM waiter CROSS JOIN LATERAL unnest(pg_blocking_pids(waiter.pid)) AS h(pid)
	UNION
	SELECT h.pid, chain.before, chain.depth + 1 FROM chain CROSS JOIN LATERAL unnest(pg_blocking_pids(chain.pid)) AS h(pid)
	WHERE chain.pid > 0 AND chain.depth < 5
)
SELECT waiter.relation, waiter.is_advisory, chain.pid, coalesce(s.application_name, ''),
	CASE WHEN chain.depth > 1 THEN chain.before ELSE 0 END, coalesce(b.application_name, '')
FROM waiter CROSS JOIN chain
LEFT JOIN pg_stat_activity s ON s.pid = chain.pid
LEFT JOIN pg_stat_activity b ON b.pid = chain.before
ORDER BY chain.depth DESC, chain.pid
LIMIT 1`

// findLock returns the lock for which this program waits, or nil if none is seen.
func findLock(ctx context.Context, d *dburl.Database) *heldLock {
	if d.Scheme != dburl.Postgres {
		return nil
	}
	var l heldLock
	row := d.DB.QueryRowContext(ctx, lockHolders, applicationName)
	if err := row.Scan(&l.table, &l.isAdvisory, &l.pid, &l.application, &l.before.pid, &l.before.application); err != nil {
		return nil // it waits for something else, or the server does not answer
	}
	return &l
}

// patiently runs f, which may take longer than --timeout, and says for whose lock it waits.
func (a *app) patiently(ctx context.Context, d *dburl.Database, f func(ctx context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(a.timeout):
		}
		if lock := findLock(ctx, d); lock != nil {
			a.notef("waiting for %s", lock)
		}
	}
}
