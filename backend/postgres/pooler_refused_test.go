package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/internal/machine"
	"github.com/errandhq/errand/queue"
)

// TestPoolerLosesStatements: through a PgBouncer that keeps no prepared statements, the errors of
// calls name the cure.
func TestPoolerLosesStatements(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(machine.StartPgBouncerSize(t, postgrestest.DSN(t), "transaction", 1))
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = "sslmode=disable" // pgx's default mode
	open := func() *postgres.Backend {
		db, err := sql.Open("pgx", u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return backend(t, db, postgres.Options{})
	}
	first, second := open(), open()
	for name, call := range map[string]func(*postgres.Backend) error{
		"enqueue": func(q *postgres.Backend) error { return q.Enqueue(t.Context(), nil, jobs(1)...) },
		"claim": func(q *postgres.Backend) error {
			_, err := q.Claim(t.Context(), request(1))
			return err
		},
		"count": func(q *postgres.Backend) error { _, err := q.Counts(t.Context()); return err },
	} {
		if err := call(first); err != nil { // prepares
			t.Errorf("%s: %v", name, err)
		}
		err := call(second)
		if err == nil || !strings.Contains(err.Error(), "42P05") || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
			t.Errorf("%s: error %v, want one with the cure", name, err)
		}
	}
}

// TestPoolerRefuses: a PgBouncer that can no longer log in to its server refuses an Enqueue. It has
// sent nothing on, so the error does not say that jobs may have been written.
func TestPoolerRefuses(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	admin, dsn := postgrestest.Empty(t), postgrestest.DSN(t)
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.LastIndex(dsn, "?")]
	db, _ := way{driver: "pgx"}.open(t, machine.StartPgBouncer(t, dsn, "transaction"))
	q := backend(t, db, postgres.Options{})
	enqueue(t, q, jobs(1)...)
	exec(t, admin, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
	exec(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err := q.Enqueue(ctx, nil, jobs(1)...)
		cancel()
		if err == nil {
			t.Fatal("Enqueue works without a server")
		}
		if !strings.Contains(err.Error(), "server login has been failing") {
			continue // a connection that has just ended, or PgBouncer still tries
		}
		if errors.Is(err, queue.ErrUnknown) {
			t.Errorf("Enqueue: %v, want an error that says that nothing is written", err)
		}
		return
	}
	t.Error("PgBouncer has refused no call")
}
