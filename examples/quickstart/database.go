package main

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/errandhq/errand/backend/postgrestest"
)

// database is where the day takes place.
type database struct {
	url         string // as package dburl takes it
	description string
	remove      func() error // undoes what findDatabase has done
}

// findDatabase goes by DATABASE_URL:
//
//	not set             a SQLite file in a temporary directory, which is removed at the end
//	sqlite:shop.db      that file, which must not have been used yet; it is kept
//	postgres://...      a database of its own on that server, which is dropped at the end
//	postgres:           the same on a server that it finds or starts: see package postgrestest
func findDatabase(ctx context.Context) (*database, error) {
	given := os.Getenv("DATABASE_URL")
	switch {
	case given == "":
		return temporaryFile()
	case strings.HasPrefix(strings.ToLower(given), "postgres"):
		return onServer(ctx, given)
	}
	return &database{given, "the database that DATABASE_URL names", func() error { return nil }}, nil
}

func temporaryFile() (*database, error) {
	dir, err := os.MkdirTemp("", "errand-quickstart-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "shop.db")
	return &database{
		url:         (&url.URL{Scheme: "sqlite", Path: path}).String(),
		description: "SQLite file " + path + ", which is removed at the end",
		remove:      func() error { return os.RemoveAll(dir) },
	}, nil
}

func onServer(ctx context.Context, given string) (*database, error) {
	if given == "postgres:" {
		if err := os.Unsetenv("DATABASE_URL"); err != nil { // it names no server
			return nil, err
		}
	}
	server, err := postgrestest.Start(ctx, postgrestest.Options{})
	if err != nil {
		return nil, err
	}
	return &database{server.DSN, server.Description, server.Close}, nil
}
