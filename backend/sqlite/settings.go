package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/backend/sqlite/internal/sqliteerr"
	"github.com/errandhq/errand/backend/sqlite/internal/writelock"
)

// settings describes a database as one connection sees it.
type settings struct {
	path        string // of the file; "" in memory
	version     string // of SQLite
	journal     string // the journal mode
	synchronous int
	busyTimeout int // in milliseconds
	locking     string
	isShared    bool   // the connections of this process share a cache
	reverted    string // the journal mode that a connection sets again after WAL mode was set; else ""
}

// ensureWAL puts the file in WAL mode, for good, and returns the settings of one connection. It
// uses a second connection, if db has one to spare, to see whether the two share a cache.
func ensureWAL(ctx context.Context, db *sql.DB, o Options) (s settings, err error) {
	was := ""
	err = writelock.RetryBusy(ctx, o.LockTimeout, func() error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if s, err = readSettings(ctx, conn); err != nil || s.path == "" || s.locking == "exclusive" {
			return err
		}
		if pool := db.Stats(); pool.MaxOpenConnections == 0 || pool.InUse < pool.MaxOpenConnections {
			if s.isShared, err = sharesCache(ctx, db, conn); err != nil || s.isShared {
				return err
			}
		}
		if s.journal == "wal" {
			return nil
		}
		was = s.journal
		return conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&s.journal)
	})
	if err == nil && was != "" && s.journal == "wal" {
		s.reverted, err = revertedMode(ctx, db, was)
	}
	if err != nil {
		why := ""
		if sqliteerr.IsBusy(err) || errors.Is(err, context.DeadlineExceeded) {
			why = " (the file is locked: by another connection, or because this one's parameters set a journal_mode other than WAL)"
		}
		return s, fmt.Errorf("sqlite: read the settings of the database%s: %w", why, err)
	}
	return s, nil
}

// sharesCache reports whether another connection of db shares the cache of conn (cache=shared). It
// looks for a setting of the cache that it changes for a moment: no pragma tells it.
func sharesCache(ctx context.Context, db *sql.DB, conn *sql.Conn) (isShared bool, err error) {
	other, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer other.Close()
	const unusual int64 = 9_876_543_210 // an int of 32 bits is too small
	var was, own, others int64
	err = conn.QueryRowContext(ctx, "PRAGMA journal_size_limit").Scan(&was)
	if err == nil {
		err = conn.QueryRowContext(ctx, fmt.Sprintf("PRAGMA journal_size_limit = %d", unusual)).Scan(&own)
	}
	if err == nil {
		err = other.QueryRowContext(ctx, "PRAGMA journal_size_limit").Scan(&others)
		err = errors.Join(err, conn.QueryRowContext(ctx, fmt.Sprintf("PRAGMA journal_size_limit = %d", was)).Scan(&own))
	}
	return others == unusual, err
}

// revertedMode returns the journal mode that new connections of db have after WAL mode was set, if
// it is another one: their parameters set it. A connection that cannot leave WAL mode, because
// others are open, is an error that says "locked"; it has the mode before.
func revertedMode(ctx context.Context, db *sql.DB, before string) (mode string, err error) {
	for range db.Stats().Idle { // they were opened before
		if err := discard(ctx, db); err != nil {
			return "", err
		}
	}
	err = db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	switch {
	case sqliteerr.IsBusy(err):
		return before, nil
	case err != nil || mode == "wal":
		return "", err
	}
	return mode, nil
}

// discard closes a connection of db.
func discard(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	return nil
}

func readSettings(ctx context.Context, conn *sql.Conn) (s settings, err error) {
	var path sql.NullString
	err = errors.Join(
		conn.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path),
		conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&s.version),
		conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&s.journal),
		conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&s.synchronous),
		conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&s.busyTimeout),
		conn.QueryRowContext(ctx, "PRAGMA locking_mode").Scan(&s.locking),
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
	case s.locking == "exclusive":
		return sqlkit.Invalid("DB", "locking_mode is EXCLUSIVE: the first connection keeps all others out, also those of this pool; %s", how)
	case s.isShared:
		return sqlkit.Invalid("DB", "cache=shared, or a driver whose connections are one: they fail at once instead of waiting for each other; %s", how)
	case s.reverted != "":
		return sqlkit.Invalid("DB", "each new connection sets journal_mode %s: it would end WAL mode, or wait for all others to be closed; %s", s.reverted, how)
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
