package server

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/errandhq/errand/backend/sqlite"
)

// SQLite is the file that all systems for SQLite use in turns, with errand's settings: WAL, and
// synchronous=FULL, which is durable. Like Postgres' data it is in the folder for temporary files,
// which should be on a disk.
type SQLite struct {
	DSN         string
	Description string
	dir         string
}

const sqliteName = "bench.db"

func startSQLite(ctx context.Context) (*SQLite, error) {
	dir, err := os.MkdirTemp("", "errand-sqlite-")
	if err != nil {
		return nil, err
	}
	s := &SQLite{dir: dir, DSN: sqlite.DSN(filepath.Join(dir, sqliteName))}
	if s.Description, err = s.describe(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// describe returns the settings that matter to speed, as a connection has them.
func (s *SQLite) describe(ctx context.Context) (string, error) {
	db, err := sql.Open("sqlite", s.DSN)
	if err != nil {
		return "", err
	}
	defer db.Close()
	text := "SQLite"
	for _, fact := range []struct{ words, query string }{
		{" ", `SELECT sqlite_version()`},
		{" by modernc.org/sqlite, file in " + s.dir + ", journal_mode ", `PRAGMA journal_mode`},
		{", synchronous ", `SELECT iif(synchronous = 2, 'FULL', synchronous) FROM pragma_synchronous`},
	} {
		var value string
		if err := db.QueryRowContext(ctx, fact.query).Scan(&value); err != nil {
			return "", err
		}
		text += fact.words + value
	}
	return text, nil
}

// wipe removes the file. No process may have it open.
func (s *SQLite) wipe() error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(s.dir, sqliteName+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *SQLite) close() error { return os.RemoveAll(s.dir) }
