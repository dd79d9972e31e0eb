package sqlite

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
)

// Open opens the database file at path with [DSN]. driver is the name under which the program's
// SQLite driver is registered: "sqlite" for modernc.org/sqlite, "sqlite3" for
// github.com/mattn/go-sqlite3. Like [sql.Open] it does not touch the file. A missing file is
// created when it is first written to.
func Open(driver, path string) (*sql.DB, error) {
	return sql.Open(driver, DSN(path))
}

// DSN returns the data source name of the file at path, for [sql.Open]. It sets WAL mode,
// synchronous=FULL, transactions that have the write lock from their beginning (BEGIN IMMEDIATE),
// and a busy_timeout of 30 s, for which they wait for that lock. That is the default of
// [Options].LockTimeout, because disks may stall for more than 10 s. It has parameters for both
// drivers, and each driver ignores the other's: modernc.org/sqlite reads _pragma and _txlock,
// mattn/go-sqlite3 the rest.
func DSN(path string) string {
	path = filepath.ToSlash(path)
	if filepath.VolumeName(path) != "" {
		path = "/" + path
	}
	wait := strconv.FormatInt(defaultLockTimeout.Milliseconds(), 10)
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path) +
		"?_pragma=busy_timeout(" + wait + ")&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate" +
		"&_busy_timeout=" + wait + "&_journal_mode=WAL&_synchronous=FULL"
}
