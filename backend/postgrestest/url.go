package postgrestest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"
)

// startURL uses the server that DATABASE_URL names.
func startURL(ctx context.Context, _ Options) (*Server, error) {
	env := os.Getenv("DATABASE_URL")
	if env == "" {
		return nil, errors.New("DATABASE_URL is not set")
	}
	u, err := url.Parse(env)
	if err != nil { // the error has the URL in it, with its password
		return nil, errors.New("DATABASE_URL is not a URL")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("DATABASE_URL does not begin with postgres://")
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
