package postgrestest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// startURL uses the server that DATABASE_URL names.
func startURL(ctx context.Context, _ Options) (*Server, error) {
	u, err := givenURL()
	if err != nil {
		return nil, err
	}
	s := &Server{base: u, where: "at " + u.Host + ", which DATABASE_URL names"}
	s.stop = s.dropOwn
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := ping(ctx, u); err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	return s, nil
}

// givenURL returns the URL that DATABASE_URL, or the file that it names, holds.
func givenURL() (*url.URL, error) {
	env, holder := os.Getenv("DATABASE_URL"), "DATABASE_URL"
	if env == "" {
		return nil, errors.New("DATABASE_URL is not set")
	}
	if path, isFile := strings.CutPrefix(env, "file:"); isFile {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("DATABASE_URL: %w", err)
		}
		env, holder = strings.TrimSpace(string(text)), "the text of the file that DATABASE_URL names"
	}
	u, err := url.Parse(env)
	if err != nil { // the error has the URL in it, with its password
		return nil, fmt.Errorf("%s is not a URL", holder)
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("%s does not begin with postgres://", holder)
	}
	return u, nil
}

// dropOwn drops the database of DSN.
func (s *Server) dropOwn() error {
	if s.name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	return s.drop(ctx, s.name)
}

// ping connects to u, once.
func ping(ctx context.Context, u *url.URL) error {
	db, err := sql.Open("pgx", u.String())
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}
