package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// fullDisk is a driver's connector whose commits fail with err while it is set, as they do on a
// full disk: SQLite rolls the transaction back.
type fullDisk struct {
	driver driver.Driver
	dsn    string
	err    atomic.Pointer[error]
}

func (d *fullDisk) Driver() driver.Driver { return d.driver }

func (d *fullDisk) Connect(context.Context) (driver.Conn, error) {
	conn, err := d.driver.Open(d.dsn)
	return fullConn{conn, d}, err
}

type fullConn struct {
	driver.Conn
	disk *fullDisk
}

func (c fullConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return fullTx{tx, c.disk}, err
}

type fullTx struct {
	driver.Tx
	disk *fullDisk
}

func (tx fullTx) Commit() error {
	if full := tx.disk.err.Load(); full != nil {
		return errors.Join(*full, tx.Rollback())
	}
	return tx.Tx.Commit()
}

// TestFullAtCommit: the disk is full at the commit of an Enqueue. Its error is not ErrUnknown, for
// nothing is written, and the same call succeeds when there is room again.
func TestFullAtCommit(t *testing.T) {
	onBoth(t, func(t *testing.T, name string) {
		file := dsn(t)
		db := open(t, name, file)
		migrate(t, db, sqlite.Options{})
		value[int](t, db, `PRAGMA max_page_count = 1`) // as many as there are
		_, full := db.ExecContext(t.Context(), `CREATE TABLE big AS SELECT zeroblob(1000000)`)
		if full == nil {
			t.Fatal("a megabyte was written to a full file")
		}
		disk := &fullDisk{driver: db.Driver(), dsn: file}
		other := sql.OpenDB(disk)
		t.Cleanup(func() { other.Close() })
		q := backend(t, other, sqlite.Options{})
		disk.err.Store(&full)
		if err := q.Enqueue(t.Context(), nil, jobs(1)...); !errors.Is(err, full) || errors.Is(err, queue.ErrUnknown) {
			t.Errorf("on a full disk: got error %v, want %v, and not ErrUnknown", err, full)
		}
		disk.err.Store(nil)
		enqueue(t, q, jobs(1)...)
		if n := value[int](t, db, `SELECT count(*) FROM errand_jobs`); n != 1 {
			t.Errorf("%d jobs, want 1", n)
		}
	})
}
