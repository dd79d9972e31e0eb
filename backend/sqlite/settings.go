package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
)

// settings describes a database as one connection sees it.
type settings struct {
	path        string // of the file; "" in memory
	version     string // of SQLite
	journal     string // the journal mode
	synchronous int
	busyTimeout int // in milliseconds
}

// ensureWAL puts the file in WAL mode, for good, and returns the settings of one connection.
func ensureWAL(ctx context.Context, db *sql.DB, o Options) (s settings, err error) {
	err = writelock.RetryBusy(ctx, o.LockTimeout, func() error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if s, err = readSettings(ctx, conn); err != nil || s.path == "" || s.journal == "wal" {
			return err
		}
		return conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&s.journal)
	})
	if err != nil {
		return s, fmt.Errorf("sqlite: read the settings of the database: %w", err)
	}
	return s, nil
}

func readSettings(ctx context.Context, conn *sql.Conn) (s settings, err error) {
	var path sql.NullString
	err = errors.Join(
		conn.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path),
		conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&s.version),
		conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&s.journal),
		conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&s.synchronous),
		conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&s.busyTimeout),
	)
	s.path = path.String
	return s, err
}

const (
	synchronousFull = 2
	oldestMinor     = 38 // 3.38 has the JSON operators
)

// check returns a [*queue.InvalidError] for a setting with which the backend cannot work.
func (s settings) check(o Options) error {
	const how = "open the database with sqlite.Open, or with the parameters of sqlite.DSN"
	if isTooOld(s.version) {
		return sqlkit.Invalid("DB", "SQLite %s: at least 3.%d", s.version, oldestMinor)
	}
	switch {
	case s.path == "":
		return sqlkit.Invalid("DB", "a database in memory: each connection has one of its own; use a file, or queuetest.New in tests")
	case s.journal != "wal":
		return sqlkit.Invalid("DB", "journal mode %s: this file cannot be in WAL mode, for example because it is on a network file system", s.journal)
	case s.synchronous < synchronousFull && !o.Relaxed:
		return sqlkit.Invalid("DB", "synchronous is %d: a power cut could undo what was committed; %s, or set Options.Relaxed", s.synchronous, how)
	case s.busyTimeout == 0:
		return sqlkit.Invalid("DB", "busy_timeout is 0: transactions would fail while a worker writes; %s", how)
	}
	return nil
}

// isTooOld reports whether that version of SQLite lacks operators that the statements use.
func isTooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return major == "3" && err == nil && n < oldestMinor
}
