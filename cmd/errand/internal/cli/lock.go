package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/dburl"
)

// heldLock is a lock of another session, for which this program waits.
type heldLock struct {
	table      string // "" for a row, and for an advisory lock
	isAdvisory bool   // as migrations take one
	lockOwner
	// before is the session directly before this program, if it is not the owner but waits for the
	// owner, too. Its pid is 0 if there is no such session.
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

// lockHolders finds the lock for which a session of this program waits. Its columns are the name of
// the table, empty for a row; whether the lock is an advisory lock; process ID and application of
// the session that has to end first, which waits for no lock itself; and process ID and application
// of the session directly before this program, if it is a different session. A prepared transaction
// has the ID 0.
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

// watchLock looks for the lock for which this program waits, until it has found the lock or ctx
// ends. After that there is nothing to find: the server has ended the waiting statement.
func (a *App) watchLock(ctx context.Context, d *dburl.Database) *heldLock {
	for {
		if lock := findLock(ctx, d); lock != nil || ctx.Err() != nil {
			return lock
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(a.Timeout/5, time.Second)):
		}
	}
}
