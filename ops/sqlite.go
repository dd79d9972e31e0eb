package ops

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

const sqliteDialect = "sqlite"

// file is a SQLite database as Doctor and Explain ask it. It is for one call of them.
type file struct {
	statements
	tables driver.Tables
	name   string // such as "SQLite 3.50.4"
	path   string
}

// onSQLite are the checks of SQLite, in the order of docs/doctor.md, without those of everywhere.
// The backend's New has refused settings that are not safe.
var onSQLite = []check{
	{"schema", fileSchema},
	{"integrity", integrity},
	{"wal", walLength},
	{"disk", fileDisk},
	{"write-lock", writeLock},
}

// row runs a statement that returns one row, outside of a transaction: one that is begun takes the
// write lock.
func (f *file) row(ctx context.Context, query string, targets ...any) error {
	query = strings.ReplaceAll(query, "errand_", f.tables.Schema)
	f.note(query)
	return f.tables.DB.QueryRowContext(ctx, query).Scan(targets...)
}

func reachFile(ctx context.Context, d *doctor) (finding, error) {
	var version string
	err := errors.Join(
		d.File.row(ctx, "SELECT sqlite_version()", &version),
		d.File.row(ctx, filePath, &d.File.path),
	)
	if err != nil {
		return finding{Fail, "the file cannot be read: " + err.Error(), "look whether it is there, and whether this user may read and write it and its folder"}, nil
	}
	d.File.name = "SQLite " + version
	return finding{value: d.File.name + ", " + d.File.path}, nil
}

const filePath = "SELECT file FROM pragma_database_list WHERE name = 'main'"

func fileSchema(ctx context.Context, d *doctor) (finding, error) {
	var found int
	err := d.File.row(ctx, "SELECT coalesce(max(version), 0) FROM errand_migrations", &found)
	if err != nil && strings.Contains(err.Error(), "no such table") {
		return finding{Fail, fmt.Sprintf("this file has no tables %s…", d.File.tables.Schema), "run sqlite.Migrate with the same Options"}, nil
	}
	return judgeVersion(found, d.File.tables.Version, "run sqlite.Migrate with the same Options"), err
}

func integrity(ctx context.Context, d *doctor) (finding, error) {
	var result string
	if err := d.File.row(ctx, "PRAGMA quick_check(1)", &result); err != nil {
		return finding{}, err
	}
	if result != "ok" {
		return finding{Fail, "the file is damaged: " + result, "stop all processes, copy the file and its -wal away, and restore a backup, or sqlite3 FILE .recover"}, nil
	}
	return finding{value: "quick_check finds nothing"}, nil
}

// The lengths of the write-ahead log from which on reads are slow.
const (
	longWAL    = 64 << 20
	tooLongWAL = 1 << 30
)

func walLength(_ context.Context, d *doctor) (finding, error) {
	info, err := os.Stat(d.File.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return finding{value: "no write-ahead log"}, nil
	}
	if err != nil {
		return finding{}, err
	}
	return finding{levelOf(info.Size(), longWAL, tooLongWAL), fmt.Sprintf("the write-ahead log has %d MB", info.Size()>>20),
		"a transaction that reads for long keeps it from being copied back into the file: end that transaction"}, nil
}

// lockWait is how long Doctor and Explain wait for SQLite's write lock.
const lockWait = time.Second

func writeLock(ctx context.Context, d *doctor) (finding, error) {
	began := time.Now()
	isFree, err := d.File.tryWriteLock(ctx)
	switch {
	case err != nil:
		return finding{}, err
	case !isFree:
		return finding{Fail, fmt.Sprintf("another transaction has the write lock, for %v at least", lockWait),
			"end the transaction that has written and is still open: all workers wait for it"}, nil
	}
	return finding{value: fmt.Sprintf("free, after %v", short(time.Since(began)))}, nil
}

// tryWriteLock reports whether the write lock can be had within lockWait.
func (f *file) tryWriteLock(ctx context.Context) (isFree bool, err error) {
	conn, err := f.tables.DB.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	var usual int
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&usual); err != nil {
		return false, err
	}
	set := func(ms int64) error {
		var got int
		return conn.QueryRowContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout = %d", ms)).Scan(&got)
	}
	if err := set(lockWait.Milliseconds()); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, set(int64(usual))) }()
	f.note("BEGIN IMMEDIATE")
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		if text := err.Error(); strings.Contains(text, "locked") || strings.Contains(text, "SQLITE_BUSY") {
			return false, nil
		}
		return false, err
	}
	_, err = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return true, err
}

// whyWriteLocked returns whether a transaction keeps the write lock, so that nothing is claimed.
func whyWriteLocked(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.File == nil {
		return nil, nil
	}
	isFree, err := q.File.tryWriteLock(ctx)
	if err != nil || isFree {
		return nil, err
	}
	return []Reason{{ID: "write-locked", Level: Fail, Verdict: "Another transaction has SQLite's write lock, so all claims and heartbeats wait.",
		Evidence: []string{fmt.Sprintf("it was not free within %v", lockWait)}, Remedy: "end the transaction that has written and is still open"}}, nil
}

// nameFile returns the path of the file, as a fact.
func nameFile(ctx context.Context, f *file) []string {
	if f.find(ctx) == "" {
		return nil
	}
	return []string{"this file is " + f.path}
}

// find returns the path of the file, "" if it cannot be known.
func (f *file) find(ctx context.Context) string {
	if err := f.row(ctx, filePath, &f.path); err != nil {
		return ""
	}
	return f.path
}

// readNeverDrawn reports whether no job of the file has had that ID, and returns the last ID.
func readNeverDrawn(ctx context.Context, f *file, id int64) (never bool, last int64, err error) {
	err = f.row(ctx, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'errand_jobs'", &last)
	if errors.Is(err, sql.ErrNoRows) {
		return true, 0, nil
	}
	return id > last, last, err
}
