package postgrestest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// Options says what kind of server a program wants. The zero Options is a server
// for tests: as fast as it gets, with no thought for a power cut. A server that
// DATABASE_URL names is as it is, whatever they say.
type Options struct {
	// Durable leaves on what a server with real data has on: fsync,
	// synchronous_commit and full_page_writes. It also keeps the data on disk, where
	// otherwise it is in memory if there is plenty. Measurements want it.
	Durable bool
	// Version is the tag of the Docker image postgres, such as "17" or
	// "18-alpine"; "" means $ERRAND_POSTGRES_VERSION, or else "18". Local binaries
	// have the version that they have.
	Version string
	// Settings are further server settings by name, such as "shared_buffers":
	// "1GB". They win over what Durable says.
	Settings map[string]string
}

// args are the server's command-line arguments for o. The limit to the log is
// because the data of such a server may be in memory.
func (o Options) args() []string {
	var args []string
	if !o.Durable {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_wal_size=512MB")
	}
	for name, value := range o.Settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// initdbArgs are those of initdb.
func (o Options) initdbArgs() []string {
	args := []string{"--encoding=UTF8"}
	if !o.Durable {
		args = append(args, "--no-sync")
	}
	return args
}

// Server is a PostgreSQL server, or a corner of one, that belongs to this process.
type Server struct {
	// DSN is the URL of a fresh, empty database, for pgx and lib/pq. Its user is a
	// superuser, except where DATABASE_URL names another.
	DSN string
	// Description says in a line what was chosen, with no secret in it, such as
	// "PostgreSQL 15.18 from /usr/lib/postgresql/15/bin, data in /tmp/errand-postgres-123/data".
	Description string

	base  *url.URL     // names the database to connect to for creating others
	where string       // Description without the version
	stop  func() error // ends the server, or drops DSN's database where it stays

	admin  *sql.DB      // open on base
	lock   *sql.Conn    // says that this process lives: see sweepSQL
	prefix string       // of the names of this process's databases
	count  atomic.Int64 // of the databases created
	name   string       // of the database that DSN names

	closed func() error // Close, once
}

// ways are the ways to come by a server, in order. Each fills in base, where and
// stop, and returns when the server can be connected to.
var ways = []struct {
	name  string
	start func(context.Context, Options) (*Server, error)
}{{"url", startURL}, {"docker", startDocker}, {"local", startLocal}}

// Start finds or starts a server, as the package comment says, and creates an
// empty database in it. It blocks until that is ready: a second or two, or as
// long as Docker takes to pull an image, or until ctx is done; afterwards ctx
// means nothing to the server.
//
// The caller closes the server; where the process ends before, the server ends
// with it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := choose(ctx, o)
	if err != nil {
		return nil, err
	}
	s.closed = sync.OnceValue(s.close)
	if err := s.enter(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("postgrestest: server %s: %w", s.where, err), s.Close())
	}
	return s, nil
}

// choose tries the ways that ERRAND_POSTGRES allows.
func choose(ctx context.Context, o Options) (*Server, error) {
	forced := os.Getenv("ERRAND_POSTGRES")
	var failed []string
	for _, way := range ways {
		if forced != "" && forced != way.name {
			continue
		}
		s, err := way.start(ctx, o)
		if err == nil {
			return s, nil
		}
		failed = append(failed, way.name+": "+err.Error())
	}
	switch {
	case len(failed) == 0:
		return nil, fmt.Errorf("postgrestest: ERRAND_POSTGRES=%s: want url, docker or local", forced)
	case forced != "":
		return nil, fmt.Errorf("postgrestest: no PostgreSQL server, and ERRAND_POSTGRES allows one way only: %s", failed[0])
	}
	return nil, fmt.Errorf("postgrestest: no PostgreSQL server:\n\t%s", strings.Join(failed, "\n\t"))
}

// baseURL is the URL of the database postgres on a server that we start.
func baseURL(host, password string) *url.URL {
	return &url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("errand", password),
		Host:     host,
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
}

// Close ends the server and removes its data; of a server that DATABASE_URL names
// it drops the database alone. It returns when that is done. Calling it again is
// harmless and returns the same error.
func (s *Server) Close() error { return s.closed() }

func (s *Server) close() error {
	err := s.stop()
	if s.lock != nil {
		s.lock.Close()
	}
	if s.admin != nil {
		s.admin.Close()
	}
	if err != nil {
		return fmt.Errorf("postgrestest: close: %w", err)
	}
	return nil
}
