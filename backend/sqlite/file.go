package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"weak"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
)

// file is a database file. All backends of this process that use it share one.
type file struct {
	lock   *writelock.Lock
	claims txClaims

	mu       sync.Mutex
	sleepers map[*sleeper]struct{}
}

// files are the files in use, by the paths that SQLite gives them, in which links are resolved.
var files = struct {
	mu sync.Mutex
	at map[string]weak.Pointer[file]
}{at: make(map[string]weak.Pointer[file])}

func fileAt(path string) *file {
	files.mu.Lock()
	defer files.mu.Unlock()
	if f := files.at[path].Value(); f != nil {
		return f
	}
	f := &file{lock: writelock.New(path), sleepers: make(map[*sleeper]struct{})}
	files.at[path] = weak.Make(f)
	runtime.AddCleanup(f, forget, path)
	return f
}

// forget drops the entry of a file that no backend uses.
func forget(path string) {
	files.mu.Lock()
	defer files.mu.Unlock()
	if files.at[path].Value() == nil {
		delete(files.at, path)
	}
}

// finding is what examine finds.
type finding struct {
	path        string // of the file; "" in memory
	version     string // of SQLite
	journal     string // the journal mode
	synchronous int
	busyTimeout int // in milliseconds
}

// examine reads the settings of a connection of db, and puts the file in WAL mode for good.
func examine(ctx context.Context, db *sql.DB, o Options) (f finding, err error) {
	err = writelock.RetryBusy(ctx, o.LockTimeout, func() error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if f, err = readSettings(ctx, conn); err != nil || f.path == "" || f.journal == "wal" {
			return err
		}
		return conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&f.journal)
	})
	if err != nil {
		return f, fmt.Errorf("sqlite: look at the database: %w", err)
	}
	return f, nil
}

func readSettings(ctx context.Context, conn *sql.Conn) (f finding, err error) {
	var path sql.NullString
	err = errors.Join(
		conn.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path),
		conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&f.version),
		conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&f.journal),
		conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&f.synchronous),
		conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&f.busyTimeout),
	)
	f.path = path.String
	return f, err
}

const (
	synchronousFull = 2
	oldestMinor     = 38 // 3.38 has the JSON operators
)

// check returns a [*queue.InvalidError] for a setting with which the backend cannot work.
func (f finding) check(o Options) error {
	const how = "open the database with sqlite.Open, or with the parameters of sqlite.DSN"
	if isTooOld(f.version) {
		return sqlkit.Invalid("DB", "SQLite %s: at least 3.%d", f.version, oldestMinor)
	}
	switch {
	case f.path == "":
		return sqlkit.Invalid("DB", "a database in memory: each connection has one of its own; use a file, or queuetest.New in tests")
	case f.journal != "wal":
		return sqlkit.Invalid("DB", "journal mode %s: WAL cannot be had here, as on a network file system", f.journal)
	case f.synchronous < synchronousFull && !o.Relaxed:
		return sqlkit.Invalid("DB", "synchronous is %d: a power cut could undo what was committed; %s, or set Options.Relaxed", f.synchronous, how)
	case f.busyTimeout == 0:
		return sqlkit.Invalid("DB", "busy_timeout is 0: transactions would fail while a worker writes; %s", how)
	}
	return nil
}

// isTooOld reports whether that version of SQLite lacks what the statements need.
func isTooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return major == "3" && err == nil && n < oldestMinor
}
