// Package place finds a database for the example programs that need one of any kind.
package place

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
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
//
// For a server that lasts as long as the program:
//
//	go run ./backend/postgrestest/withpostgres go run ./examples/quickstart
func Find(ctx context.Context) (*Database, error) {
	given := os.Getenv("DATABASE_URL")
	if path, isFile := strings.CutPrefix(given, "file:"); isFile {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		given = strings.TrimSpace(string(text))
	}
	switch {
	case given == "":
		return temporaryFile()
	case strings.HasPrefix(strings.ToLower(given), "postgres"):
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

// onServer creates a database. The driver's errors name no password.
func onServer(ctx context.Context, given string) (*Database, error) {
	u, err := url.Parse(given)
	if err != nil || u.Host == "" { // the error has the password in it
		return nil, errors.New("DATABASE_URL is no URL postgres://user:password@host:port/database")
	}
	db, err := sql.Open("pgx", given)
	if err != nil {
		return nil, err
	}
	name := "errand_example_" + strings.ToLower(rand.Text()[:12])
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	own := *u
	own.Path = "/" + name
	return &Database{
		URL:         own.String(),
		Description: "PostgreSQL database " + name + " at " + u.Host + ", which is dropped at the end",
		Remove: func() error {
			_, err := db.Exec("DROP DATABASE " + name + " WITH (FORCE)")
			return errors.Join(err, db.Close())
		},
	}, nil
}
