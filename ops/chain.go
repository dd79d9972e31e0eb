package ops

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// chain is a transaction that keeps others waiting, behind those that it waits for itself: the
// first waits for none, and has to end first.
type chain []locker

// chain returns what the transaction waits for, before the transaction itself. If that cannot be
// found out, it is the transaction alone. The error is ctx's.
func (s *server) chain(ctx context.Context, last locker) (c chain, err error) {
	if last.pid != 0 { // a prepared transaction waits for nothing
		err = s.rows(ctx, "blockers", func(r *sql.Rows) error {
			var l locker
			err := r.Scan(append(l.targets(), &l.isWaiting)...)
			c = append(c, l)
			return err
		}, last.pid)
	}
	if err != nil {
		c = nil
	}
	last.isWaiting = len(c) > 0
	return append(c, last), ctx.Err()
}

// evidence says in a line each what the transactions do.
func (c chain) evidence() (lines []string) {
	for _, l := range c {
		switch {
		case !l.isWaiting:
			lines = append(lines, l.evidence())
		case l.table == "":
			lines = append(lines, l.session()+" waits for that")
		default:
			lines = append(lines, fmt.Sprintf("%s waits for that, and has locked the table %s or is about to", l.session(), l.table))
		}
	}
	return lines
}

// remedy returns how to end the first transaction, and otherwise the wait of the last.
func (c chain) remedy() string {
	text := c[0].remedy()
	if len(c) > 1 {
		text += fmt.Sprintf(". Or, which ends only the statement that waits for it: SELECT pg_cancel_backend(%d)", c[len(c)-1].pid)
	}
	return text
}

// name names the transaction by its session, or by its own name if it is prepared.
func (l locker) name() string {
	if l.pid == 0 {
		return fmt.Sprintf("the prepared transaction %q", l.prepared)
	}
	return fmt.Sprintf("session %d", l.pid)
}

// blocks says what waits behind a lock on the table.
func (l locker) blocks() string {
	if l.table == jobsTable {
		return "all claims wait"
	}
	return "what errand does with that table waits, which may be claims"
}

// text is the evidence in one line.
func (c chain) text() string { return strings.Join(c.evidence(), "; ") }
