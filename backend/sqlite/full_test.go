package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
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

// TestFullDoesNotBlameSchedules: the disk is full, or fails, while schedules fire, or the file
// cannot be written. No schedule is
// left alone for that, and the next call fires them, as one batch.
func TestFullDoesNotBlameSchedules(t *testing.T) {
	onBoth(t, func(t *testing.T, name string) {
		file := dsn(t)
		db := open(t, name, file)
		migrate(t, db, sqlite.Options{})
		disk := &fullDisk{driver: db.Driver(), dsn: file}
		other := sql.OpenDB(disk)
		t.Cleanup(func() { other.Close() })
		q := backend(t, other, sqlite.Options{})
		for code, text := range map[int]string{7: "out of memory", 8: "attempt to write a readonly database", 10: "disk I/O error", 14: "unable to open database file", 13: "database or disk is full"} {
			for n := 1; n <= 2; n++ {
				s := queue.Schedule{Name: fmt.Sprint("s", n), Spec: "@every 1h", Overlap: true, Job: &queue.Job{Queue: "q", Kind: "k"}}
				if err := q.SetSchedules(t.Context(), nil, s); err != nil {
					t.Fatal(err)
				}
				execute(t, db, `UPDATE errand_schedules SET next_at = 1`)
				var failure error = codedError{code, text}
				disk.err.Store(&failure)
				sqlite.ForgetTick(q)
				if fired, _, err := q.FireSchedules(t.Context()); fired != 0 || !errors.Is(err, failure) {
					t.Errorf("FireSchedules: got %d, error %v; want 0, %v", fired, err, failure)
				}
				disk.err.Store(nil)
				if left := sqlite.LeftSchedules(q); len(left) > 0 {
					t.Errorf("%s: left alone: %v", text, left)
				}
				sqlite.ForgetTick(q)
				if fired, _, err := q.FireSchedules(t.Context()); fired != n || err != nil {
					t.Errorf("%s: FireSchedules again: got %d, error %v; want %d", text, fired, err, n)
				}
			}
			if _, err := q.DeleteSchedules(t.Context(), nil, "s1", "s2"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// codedError is an error with a result code, as modernc's driver returns it.
type codedError struct {
	code int
	text string
}

func (e codedError) Error() string { return e.text }
func (e codedError) Code() int     { return e.code }
