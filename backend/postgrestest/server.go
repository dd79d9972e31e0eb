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

// Options configure [Start]. The zero value is a server for tests: as fast as possible, and not
// safe against a power cut. A server that DATABASE_URL names keeps its own settings, whatever the
// Options are.
type Options struct {
	// Durable leaves on what a server with real data has on: fsync, synchronous_commit and
	// full_page_writes. It also keeps the data on disk; otherwise it is in memory if there is
	// plenty. Measurements need it.
	Durable bool
	// Version is the tag of the Docker image postgres, such as "17" or "18-alpine"; "" means
	// $ERRAND_POSTGRES_VERSION, or else "18". It does not apply to local binaries.
	Version string
	// Settings are further server settings by name, such as "shared_buffers": "1GB". They override
	// those that Durable implies.
	Settings map[string]string
}

// args returns the server's command-line arguments for o. They limit the log, because such a
// server's data may be in memory.
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

// initdbArgs returns the arguments of initdb.
func (o Options) initdbArgs() []string {
	args := []string{"--encoding=UTF8"}
	if !o.Durable {
		args = append(args, "--no-sync")
	}
	return args
}

// Server is a PostgreSQL server, or a database in one, that belongs to this process. [Start] makes
// one.
type Server struct {
	// DSN is the URL of a fresh, empty database, for pgx and lib/pq. Its user is a superuser,
	// unless DATABASE_URL names another.
	DSN string
	// Description says in one line which server it is, without any secret, such as "PostgreSQL
	// 15.18 from /usr/lib/postgresql/15/bin, data in /tmp/errand-postgres-123/data".
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

// ways are the ways to get a server, in order. Each fills in base, where and stop, and returns when
// the server accepts connections.
var ways = []struct {
	name  string
	start func(context.Context, Options) (*Server, error)
}{{"url", startURL}, {"docker", startDocker}, {"local", startLocal}}

// Start finds or starts a server, as the package comment says, and creates an empty database in it.
// It blocks until that is ready: a second or two, or as long as Docker takes to pull an image. It
// gives up when ctx ends; once it has returned, ctx has no effect on the server.
//
// The caller must close the server. If the process ends first, the server ends with it.
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

// baseURL returns the URL of the database postgres on a server that we start. The user is not named
// like errand's schema: the search_path would put the test's own tables there.
func baseURL(host, password string) *url.URL {
	return &url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("tester", password),
		Host:     host,
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
}

// Close ends the server and removes its data; on a server that DATABASE_URL names it only drops the
// database. It blocks until that is done. Further calls do nothing and return the same error. It
// may be called concurrently.
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
