package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
)

// Open opens the database file at path, which is created when it is first
// written to, with [DSN]. driver is the name under which the program's SQLite driver
// is registered: "sqlite" for modernc.org/sqlite, "sqlite3" for
// github.com/mattn/go-sqlite3. Like [sql.Open] it does not touch the file.
func Open(driver, path string) (*sql.DB, error) {
	return sql.Open(driver, DSN(path))
}

// DSN is the data source name of the file at path, for [sql.Open]: WAL,
// synchronous=FULL, transactions that have the write lock from their beginning
// (BEGIN IMMEDIATE), and 10 s of patience for those that wait for it. It says so in
// the words of each driver, which pass over those of the other: modernc.org/sqlite
// reads _pragma and _txlock, mattn/go-sqlite3 the rest.
func DSN(path string) string {
	path = filepath.ToSlash(path)
	if filepath.VolumeName(path) != "" {
		path = "/" + path
	}
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path) +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate" +
		"&_busy_timeout=10000&_journal_mode=WAL&_synchronous=FULL"
}
