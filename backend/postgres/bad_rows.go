package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Bad rows.
//
// Problem: a trigger of the application's that raises for one job, or a damaged row, makes a
// statement for many jobs fail, each time, and the error does not name the row.
// Rule: after such an error, and only then, the statement runs again for the halves of its rows,
// until the refused ones are found. They are logged and passed over for badrows.PassOver. A claim
// chooses its rows in the server. So its halves are tried in transactions that are rolled back,
// and while bad rows are known, a transaction beside the claim keeps them locked: claims pass over
// locked rows.
// Bounds: while no bad row is known, nothing. With one, a claim has four round trips more and a
// second connection, and in a pool that has none for it fails. It looks for rows among the
// thousand jobs at the heads of its queues.
// Shown by: TestRefusedRow, TestRefusedInTx, TestDamagedToast.

// badRows are the rows to pass over.
type badRows struct {
	turn chan struct{} // holds an element while a claim has its bad rows locked

	claims, releases, reclaims, prunes, progress badrows.Known
}

const (
	// badHeads is among how many jobs of each queue a failed claim looks for the refused ones.
	badHeads = 1000
	// badPart is how many of them are tried at once.
	badPart = 100
	// badRounds is how often one claim looks for refused jobs and begins again.
	badRounds = 5
	// namingTimeout bounds the search for the row that has ended the caller's transaction.
	namingTimeout = 2 * time.Second
)

// errTried makes a transaction that has only tried something roll back.
var errTried = errors.New("tried")

// lockBadClaims locks the rows that claims pass over until unlock is called, if some are known and
// the pool has a second connection. Rows that it cannot lock are locked by others. Meanwhile other
// claims of the backend wait, without a connection: if each held one and waited for a second, none
// would get it.
func (b *Backend) lockBadClaims(ctx context.Context) (unlock func()) {
	nothing := func() {}
	ids := b.badRows.claims.IDs()
	if len(ids) == 0 {
		return nothing
	}
	free, release := b.Reserve(0)
	release()
	if free < 2 {
		return nothing
	}
	select {
	case b.badRows.turn <- struct{}{}:
	case <-ctx.Done():
		return nothing
	}
	endTurn := func() { <-b.badRows.turn }
	conn, err := b.db.Conn(ctx)
	if err != nil {
		endTurn()
		return nothing
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		conn.Close()
		endTurn()
		return nothing
	}
	unlock = func() {
		_ = tx.Rollback()
		conn.Close()
		endTurn()
	}
	_, err = tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = '10s'")
	if err == nil {
		_, err = tx.ExecContext(ctx, b.sql["lock_rows"], idArray(ids))
	}
	if err != nil {
		unlock()
		return nothing
	}
	return unlock
}

// noteBadClaims looks for the jobs that make claims of these queues fail, and notes them. It
// reports whether some are known, which another claim passes over.
func (b *Backend) noteBadClaims(ctx context.Context, req queue.ClaimRequest) (mayPass bool) {
	refused := b.findBadClaims(ctx, req)
	b.badRows.claims.Note(b.options.Logger, "claim", refused)
	return len(refused) > 0 || len(b.badRows.claims.IDs()) > 0
}

// findBadClaims returns the jobs at the heads of the request's queues that cannot be claimed: those
// of the first part that has some.
func (b *Backend) findBadClaims(ctx context.Context, req queue.ClaimRequest) (refused []badrows.Row) {
	ids, err := b.queryIDs(ctx, "claim", nil, b.sql["claim_heads"], textArray(req.Queues), kinds(req), badHeads, idArray(b.badRows.claims.IDs()))
	isBad := func(err error) bool { return ctx.Err() == nil && (isOfRow(err) || sqlState(err) == uniqueViolation) }
	for len(ids) > 0 && err == nil && len(refused) == 0 {
		part := ids[:min(badPart, len(ids))]
		ids = ids[len(part):]
		refused, err = badrows.HalveIDs(part, isBad, func(part []int64) error {
			err := b.tryTo(ctx, "claim", b.sql["claim_try"], idArray(part), req.Worker)
			if sqlState(err) == uniqueViolation && len(part) == 1 {
				return nil // another ordered job of the group runs
			}
			return err // also of two ordered jobs of a group, which no claim takes together
		})
	}
	return refused
}

// tryTo runs a statement in a transaction of its own that is rolled back.
func (b *Backend) tryTo(ctx context.Context, operation, statement string, args ...any) error {
	err := b.inTx(ctx, operation, func(tx queue.DB) error {
		if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '100ms'"); err != nil {
			return err
		}
		if err := sqlkit.QueryRows(ctx, tx, func(rows *sql.Rows) error { return nil }, statement, args...); err != nil {
			return err
		}
		return errTried
	})
	if errors.Is(err, errTried) {
		return nil
	}
	return err
}

// nameRefused adds the jobs to err, with which a statement has ended the caller's transaction. It
// tries the statement for these ids in transactions of its own, which do not see what the caller's
// has written.
func (b *Backend) nameRefused(ctx context.Context, operation string, err error, ids []int64, statement string, args ...any) error {
	if !isOfRow(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, namingTimeout)
	defer cancel()
	refused, _ := badrows.HalveIDs(ids, isOfRow, func(part []int64) error {
		return b.tryTo(ctx, operation, statement, append([]any{idArray(part)}, args...)...)
	})
	if len(refused) == 0 {
		return err
	}
	return fmt.Errorf("postgres: %s: %w", operation, badrows.AsError(refused))
}

// upkeepStatement is a statement that chooses running jobs and changes them.
type upkeepStatement struct {
	all     string // the statement
	choose  string // returns the ids that it would change, but for those of its last parameter
	allowed string // changes only the ids of its last parameter
}

// newUpkeep returns the variants of sql/reclaim.sql or sql/release_unanswered.sql, whose parameters
// end with $n. typed gives a type to one that the choice of jobs does not use, if there is one.
func newUpkeep(all string, n int, typed string) upkeepStatement {
	const running = "r.status = 'running'\n"
	last := "$" + strconv.Itoa(n+1) + "::text"
	_, choose, _ := strings.Cut(all, "SELECT r.ctid\n")
	choose, _, _ = strings.Cut(choose, "FOR UPDATE SKIP LOCKED")
	choose = strings.Replace(choose, running, running+"AND r.id <> ALL (("+last+")::bigint[])\n", 1)
	return upkeepStatement{
		all:     all,
		choose:  "SELECT r.id\n" + choose + typed,
		allowed: strings.Replace(all, running, running+"AND r.id = ANY (("+last+")::bigint[])\n", 1),
	}
}

// newPrune returns the variants of sql/prune.sql.
func newPrune(all string) upkeepStatement {
	const (
		turn   = "        AND (SELECT mine FROM turn)\n    ORDER BY j.updated_at, j.id\n"
		ending = "    ORDER BY j.id\n    FOR UPDATE SKIP LOCKED\n"
		ids    = "(ARRAY(SELECT id FROM done UNION ALL SELECT id FROM dead UNION ALL SELECT id FROM cancelled))\n"
	)
	choose, _, _ := strings.Cut(all, "), removed AS (")
	const others = "        AND j.id <> ALL (($6::text)::bigint[])\n"
	choose = strings.NewReplacer(turn, others+turn, ending, others+ending).Replace(choose)
	return upkeepStatement{
		all: all,
		choose: choose + ")\nSELECT id FROM (SELECT id FROM done UNION ALL SELECT id FROM dead UNION ALL SELECT id FROM cancelled) AS found\n" +
			"WHERE $4::boolean IS NOT NULL",
		allowed: strings.Replace(all, ids, ids+"        AND id = ANY (($6::text)::bigint[])\n", 1),
	}
}

// passBad runs a statement that chooses its rows. do runs it, in the variant text, with the last
// argument of that, if it has one. If a row makes it fail, or bad rows are known, passBad asks for
// the rows, and runs it for their halves.
func (b *Backend) passBad(ctx context.Context, operation string, known *badrows.Known, s upkeepStatement, args []any, do func(text string, last ...any) error) error {
	passed := known.IDs()
	if len(passed) == 0 {
		if err := do(s.all); !isOfRow(err) {
			return err
		}
	}
	ids, err := b.queryIDs(ctx, operation, nil, s.choose, append(args, idArray(passed))...)
	if err != nil {
		return err
	}
	refused, err := badrows.HalveIDs(ids, isOfRow, func(part []int64) error { return do(s.allowed, idArray(part)) })
	known.Note(b.options.Logger, operation, refused)
	return err
}

// idArray returns the text of an array of ids.
func idArray(ids []int64) string {
	list := numbers(len(ids))
	for _, id := range ids {
		list.int(id)
	}
	return list.String()
}
