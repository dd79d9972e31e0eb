package postgrestest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// sweepSQL lists the databases whose process is dead. Every database is named
// errand_test_RUN_COUNT. RUN is 12 hex digits that its process has drawn at random; the process
// holds an advisory lock of that number as long as it lives. pg_locks shows the locks of the whole
// server, in whichever database they were taken.
const sweepSQL = `
SELECT datname FROM pg_database
WHERE datname ~ '^errand_test_[0-9a-f]{12}_[0-9]+$'
AND substr(datname, 13, 12) NOT IN (
	SELECT lpad(to_hex((classid::bigint << 32) | objid::bigint), 12, '0')
	FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1)`

// enter makes s usable. It connects, takes the run's lock before any database of that name exists,
// drops what dead processes left, and creates the database of DSN.
func (s *Server) enter(ctx context.Context) error {
	var err error
	if s.admin, err = sql.Open("pgx", s.base.String()); err != nil {
		return err
	}
	s.admin.SetMaxOpenConns(5) // one of them has the lock
	s.admin.SetMaxIdleConns(5)
	if s.lock, err = s.admin.Conn(ctx); err != nil {
		return err
	}
	run := rand.Int64N(1 << 48)
	s.prefix = fmt.Sprintf("errand_test_%012x_", run)
	var version string
	err = s.lock.QueryRowContext(ctx, "SELECT current_setting('server_version'), pg_advisory_lock($1)::text", run).Scan(&version, new(string))
	if err != nil {
		return err
	}
	version, _, _ = strings.Cut(version, " ") // without the packager's own
	s.Description = "PostgreSQL " + version + " " + s.where
	if err := s.sweep(ctx); err != nil {
		return fmt.Errorf("left-over databases: %w", err)
	}
	if s.name, err = s.create(ctx, "template0"); err != nil {
		return err
	}
	s.DSN = s.dsn(s.name)
	return nil
}

// sweep drops the databases of dead processes, except those that another user owns or that another
// process is dropping.
func (s *Server) sweep(ctx context.Context) error {
	rows, err := s.admin.QueryContext(ctx, sweepSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		_ = s.drop(ctx, name)
	}
	return rows.Err()
}

// create creates a database as a copy of template and returns its name. It fails while anybody is
// connected to template.
func (s *Server) create(ctx context.Context, template string) (string, error) {
	name := fmt.Sprint(s.prefix, s.count.Add(1))
	_, err := s.admin.ExecContext(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42501" { // insufficient_privilege
		user := s.base.User.Username()
		return "", fmt.Errorf("the user %s may not create databases, ALTER ROLE %s CREATEDB would let it: %w", user, user, err)
	}
	if err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	return name, nil
}

// drop drops a database and ends the connections to it.
func (s *Server) drop(ctx context.Context, name string) error {
	if _, err := s.admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database: %w", err)
	}
	return nil
}

// dsn returns the URL of the database with that name.
func (s *Server) dsn(name string) string {
	u := *s.base
	u.Path = "/" + name
	u.RawPath = ""
	return u.String()
}
