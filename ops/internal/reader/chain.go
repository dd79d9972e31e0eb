package reader

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Chain is a transaction that keeps others waiting, behind those that it waits for itself: the
// first waits for none, and has to end first.
type Chain []Locker

// Chain returns what the transaction waits for, before the transaction itself. If that cannot be
// found out, it is the transaction alone. The error is ctx's.
func (s *Server) Chain(ctx context.Context, last Locker) (c Chain, err error) {
	if last.Pid != 0 { // a prepared transaction waits for nothing
		err = s.Rows(ctx, "blockers", func(r *sql.Rows) error {
			var l Locker
			err := r.Scan(append(l.Targets(), &l.isWaiting)...)
			c = append(c, l)
			return err
		}, last.Pid)
	}
	if err != nil {
		c = nil
	}
	last.isWaiting = len(c) > 0
	return append(c, last), ctx.Err()
}

// Evidence says in a line each what the transactions do.
func (c Chain) Evidence() (lines []string) {
	for _, l := range c {
		switch {
		case !l.isWaiting:
			lines = append(lines, l.Evidence())
		case l.Table == "":
			lines = append(lines, l.session()+" waits for that")
		default:
			lines = append(lines, fmt.Sprintf("%s waits for that, and has locked the table %s or is about to", l.session(), l.Table))
		}
	}
	return lines
}

// Remedy returns how to end the first transaction, and otherwise the wait of the last.
func (c Chain) Remedy() string {
	text := c[0].Remedy()
	if len(c) > 1 {
		text += fmt.Sprintf(". Or, which ends only the statement that waits for it: SELECT pg_cancel_backend(%d)", c[len(c)-1].Pid)
	}
	return text
}

// Name names the transaction by its session, or by its own name if it is prepared.
func (l Locker) Name() string {
	if l.Pid == 0 {
		return fmt.Sprintf("the prepared transaction %q", l.prepared)
	}
	return fmt.Sprintf("session %d", l.Pid)
}

// Blocks says what waits behind a lock on the table.
func (l Locker) Blocks() string {
	if l.Table == JobsTable {
		return "all claims wait"
	}
	return "what errand does with that table waits, which may be claims"
}

// Text is the evidence in one line.
func (c Chain) Text() string { return strings.Join(c.Evidence(), "; ") }
