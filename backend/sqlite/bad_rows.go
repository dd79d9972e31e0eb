package sqlite

import (
	"context"
	"errors"
	"slices"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/sqlite/internal/sqliteerr"
	"github.com/errandhq/errand/queue"
)

// badRows are the rows to pass over: a trigger of the application's raises for them. Such an error
// undoes one statement and not its transaction, so halve finds the rows within the transaction.
type badRows struct {
	claims, reclaims, prunes, progress badrows.Known
}

const (
	savepoint  = "SAVEPOINT errand_row"
	rollbackTo = "ROLLBACK TO errand_row"
	releaseRow = "RELEASE errand_row"
)

// halve calls do, which runs one statement for these ids in a transaction, with all of them, and
// after an error of a row with each half. It returns the rows that are refused.
func halve(ctx context.Context, db queue.DB, ids []int64, do func(part []int64) error) ([]badrows.Row, error) {
	return halveItems(ctx, db, ids, func(id int64) int64 { return id }, do)
}

// halveItems is halve for items with an id.
func halveItems[T any](ctx context.Context, db queue.DB, items []T, id func(T) int64, do func(part []T) error) ([]badrows.Row, error) {
	isWithin := true
	isOfRow := func(err error) bool { return isWithin && sqliteerr.IsConstraint(err) }
	return badrows.Halve(items, id, isOfRow, func(part []T) error {
		err := do(part)
		if isOfRow(err) { // RAISE(ROLLBACK) has ended the transaction
			_, begin := db.ExecContext(ctx, "BEGIN")
			isWithin = sqliteerr.IsWithinTx(begin)
			if begin == nil {
				_, rollback := db.ExecContext(ctx, "ROLLBACK")
				return errors.Join(err, errEnded, rollback)
			}
		}
		return err
	})
}

// undoIfRefused calls do within a savepoint of a transaction. If a row is refused, it undoes what
// do has done, and returns an error that names the row. A connection of the caller's has no
// savepoint, because it may be in no transaction.
func undoIfRefused(ctx context.Context, db queue.DB, do func() ([]badrows.Row, error)) error {
	if h, ok := db.(callerHandle); ok && !h.tx {
		refused, err := do()
		return errors.Join(err, badrows.AsError(refused))
	}
	if _, err := exec(ctx, db, savepoint); err != nil {
		return err
	}
	refused, err := do()
	if len(refused) > 0 {
		err = badrows.AsError(refused)
	}
	if err == nil {
		_, err = exec(ctx, db, releaseRow)
		return err
	}
	if _, failed := exec(ctx, db, rollbackTo); failed == nil {
		_, _ = exec(ctx, db, releaseRow)
	}
	return err
}

// isAmong reports whether one of the rows has the id.
func isAmong(rows []badrows.Row, id int64) bool {
	return slices.ContainsFunc(rows, func(r badrows.Row) bool { return r.ID == id })
}

// without returns ids without those to pass over, which are in ascending order.
func without(ids, passed []int64) []int64 {
	if len(passed) == 0 {
		return ids
	}
	return slices.DeleteFunc(ids, func(id int64) bool {
		_, isPassed := slices.BinarySearch(passed, id)
		return isPassed
	})
}
