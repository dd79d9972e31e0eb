// Package place finds a database for the example programs that need one of any kind.
package place

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/errandhq/errand/backend/postgrestest"
)

// Database is where a program runs.
type Database struct {
	URL         string // as package dburl takes it
	Description string
	Remove      func() error // undoes what Find has done
}

// Find goes by DATABASE_URL:
//
//	not set             a SQLite file in a temporary directory, which is removed at the end
//	sqlite:example.db   that file, which must not have been used yet; it is kept
//	postgres://...      a database of its own on that server, which is dropped at the end
//	file:/a/path        the same, with the server's URL in that file
//	postgres:           the same on a server that it finds or starts: see package postgrestest
func Find(ctx context.Context) (*Database, error) {
	given := os.Getenv("DATABASE_URL")
	switch {
	case given == "":
		return temporaryFile()
	case strings.HasPrefix(strings.ToLower(given), "postgres"), strings.HasPrefix(given, "file:"):
		return onServer(ctx, given)
	}
	return &Database{given, "the database that DATABASE_URL names", func() error { return nil }}, nil
}

func temporaryFile() (*Database, error) {
	dir, err := os.MkdirTemp("", "errand-example-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "example.db")
	return &Database{
		URL:         (&url.URL{Scheme: "sqlite", Path: path}).String(),
		Description: "SQLite file " + path + ", which is removed at the end",
		Remove:      func() error { return os.RemoveAll(dir) },
	}, nil
}

func onServer(ctx context.Context, given string) (*Database, error) {
	if given == "postgres:" {
		if err := os.Unsetenv("DATABASE_URL"); err != nil { // it names no server
			return nil, err
		}
	}
	server, err := postgrestest.Start(ctx, postgrestest.Options{})
	if err != nil {
		return nil, err
	}
	return &Database{server.DSN, server.Description, server.Close}, nil
}
