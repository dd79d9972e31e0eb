package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Receive implements [driver.Receiver] with sql/remember_sources.sql, which tells the jobs that
// have not been received before, the statements of Enqueue, and sql/keep_past.sql.
func (b *Backend) Receive(ctx context.Context, transfers ...driver.Transfer) (received int, err error) {
	for i, t := range transfers {
		if err := t.Check(b.options.MaxPayload); err != nil {
			return 0, fmt.Errorf("sqlite: receive: job %d of %d: %w", i+1, len(transfers), err)
		}
	}
	if len(transfers) == 0 {
		return 0, nil
	}
	var fresh []*queue.Job
	err = b.write(ctx, "receive", func(ctx context.Context, db queue.DB) error {
		isFresh, err := b.rememberSources(ctx, db, transfers)
		fresh = sqlkit.Fresh(transfers, isFresh)
		if err != nil || len(fresh) == 0 {
			return err
		}
		if err := b.writeJobs(ctx, db, fresh); err != nil {
			return err
		}
		_, err = exec(ctx, db, b.sql["keep_past"], pasts(fresh))
		return err
	})
	if err != nil {
		return 0, err
	}
	b.wakeFor(nil, fresh)
	return len(fresh), nil
}

// rememberSources remembers the sources of transfers, and returns those that it did not remember
// before. It also forgets some that are over.
func (b *Backend) rememberSources(ctx context.Context, db queue.DB, transfers []driver.Transfer) (isFresh map[string]bool, err error) {
	names := make([]string, len(transfers))
	isFresh = make(map[string]bool, len(transfers))
	for i, t := range transfers {
		names[i] = t.Source
	}
	now := now()
	if _, err := exec(ctx, db, b.sql["forget_sources"], now, 2*len(transfers)); err != nil {
		return nil, err
	}
	err = queryRows(ctx, db, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		isFresh[name] = true
		return err
	}, b.sql["remember_sources"], stringList(names), now+sqlkit.Microseconds(driver.TransferWindow), now)
	return isFresh, err
}

// pasts returns the parameter of sql/keep_past.sql for the jobs that were written anew.
func pasts(jobs []*queue.Job) string {
	var l list
	for _, j := range jobs {
		if j.Duplicate || j.Replaced {
			continue
		}
		l.begin()
		l.int(j.ID)
		putTime(&l, j.CreatedAt)
		l.int(int64(j.Attempt))
		putText(&l, sqlkit.OrNull(j.LastError))
		l.end()
	}
	return l.String()
}

func putTime(l *list, at time.Time) {
	if at.IsZero() {
		l.null()
	} else {
		l.int(at.UnixMicro())
	}
}
