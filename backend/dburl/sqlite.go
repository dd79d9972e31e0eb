package dburl

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/errandhq/errand/backend/sqlite"
)

func openSQLite(rest string, o Options) (*Database, error) {
	path, err := sqlitePath(rest)
	if err != nil {
		return nil, err
	}
	if o.MustExist {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("dburl: %w", err)
		}
	}
	options := sqlite.Options{Retention: o.Retention}
	dsn := sqlite.DSN(path)
	if o.ReadOnly {
		dsn += "&_pragma=query_only(1)"
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("dburl: %s: %w", path, err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	q, err := sqlite.New(db, options)
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("dburl: %s: %w", path, err)
	}
	return &Database{
		Scheme:      SQLite,
		Description: "SQLite file " + path,
		Queue:       q,
		DB:          db,
		migrate:     func(ctx context.Context) error { return sqlite.Migrate(ctx, db, options) },
	}, nil
}

// sqlitePath returns the path in what follows "sqlite:". It makes the path absolute, because
// connections are opened later, when the working directory may have changed.
func sqlitePath(rest string) (string, error) {
	rest, slashes := strings.CutPrefix(rest, "//")
	if first, _, _ := strings.Cut(rest, "/"); slashes && strings.Contains(first, "@") {
		return "", invalid("a file has neither user nor host: it is sqlite:path, or sqlite:///path from the root; @ in a path after // is written %%40")
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		return "", invalid("%q after the path: sqlite: has no parameters; in a path ? is written %%3F, and # %%23", rest[i])
	}
	path, err := url.PathUnescape(rest)
	switch {
	case err != nil:
		return "", invalid("two hexadecimal digits must follow a %% in the path: a %% itself is written %%25")
	case path == "":
		return "", invalid("no path: it is sqlite:path, such as sqlite:errand.db")
	case strings.ContainsFunc(path, unicode.IsControl):
		return "", invalid("a control character in the path")
	case path == ":memory:":
		return "", invalid("a SQLite database in memory would be another one for each connection: memory: is a queue in memory")
	case strings.HasPrefix(path, "file:"):
		return "", invalid("a path must follow sqlite:, and not a file: URI of SQLite's own")
	}
	return filepath.Abs(path)
}
