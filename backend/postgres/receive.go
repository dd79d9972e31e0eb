package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Receive implements [driver.Receiver] in a transaction: sql/remember_sources.sql tells the jobs
// that have not been received before, then come the statements of Enqueue and sql/keep_past.sql.
// The sources are in the table dedup. Its role needs the rights to enqueue and to work.
func (b *Backend) Receive(ctx context.Context, transfers ...driver.Transfer) (received int, err error) {
	for i, t := range transfers {
		if err := t.Check(b.options.MaxPayload); err != nil {
			return 0, fmt.Errorf("postgres: receive: job %d of %d: %w", i+1, len(transfers), err)
		}
	}
	if len(transfers) == 0 {
		return 0, nil
	}
	err = withRetry(ctx, func() (err error) {
		conn, err := b.db.Conn(ctx)
		if err != nil {
			return explainNoConn(b.db, err)
		}
		defer conn.Close()
		return readCommitted(ctx, conn, func(db queue.DB) (err error) {
			received, err = b.receiveIn(ctx, db, transfers)
			return err
		})
	})
	if err != nil {
		return 0, sqlkit.Wrap(ctx, "postgres", "receive", notSetUp(err, b.options.Schema, "receive"))
	}
	return received, nil
}

// receiveIn does the work of Receive in a transaction.
func (b *Backend) receiveIn(ctx context.Context, tx queue.DB, transfers []driver.Transfer) (received int, err error) {
	names := make([]string, len(transfers))
	for i, t := range transfers {
		names[i] = sourceKey + t.Source
	}
	slices.Sort(names)
	isFresh := make(map[string]bool, len(transfers))
	err = sqlkit.QueryRows(ctx, tx, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		isFresh[name[len(sourceKey):]] = true
		return err
	}, b.sql["remember_sources"], textArray(slices.Compact(names)), sqlkit.Microseconds(driver.TransferWindow))
	fresh := sqlkit.Fresh(transfers, isFresh)
	if err != nil || len(fresh) == 0 {
		return 0, err
	}
	if err := b.Enqueue(ctx, tx, fresh...); err != nil {
		return 0, err
	}
	return len(fresh), b.keepPast(ctx, tx, fresh)
}

// sourceKey is what the keys of sources in the table dedup begin with. middleware.SQLDedup has its
// own there.
const sourceKey = "received "

// keepPast writes what the jobs that were written anew were before.
func (b *Backend) keepPast(ctx context.Context, tx queue.DB, jobs []*queue.Job) error {
	var ids, created, attempts, lastErrors array
	for _, j := range jobs {
		if j.Duplicate || j.Replaced {
			continue
		}
		ids.int(j.ID)
		attempts.int(int64(j.Attempt))
		if j.CreatedAt.IsZero() {
			created.raw(noTime)
		} else {
			created.string(timestamp(j.CreatedAt))
		}
		lastErrors.string(j.LastError)
	}
	_, err := tx.ExecContext(ctx, b.sql["keep_past"], ids.String(), created.String(), attempts.String(), lastErrors.String())
	return err
}
