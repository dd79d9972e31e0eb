package health_test

import (
	"database/sql"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/health"
	"github.com/errandhq/errand/queue"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"
)

// readiness asks anew for each probe after a pause of a second.
func readiness(q queue.Queue, timeout time.Duration) *health.Readiness {
	return &health.Readiness{Queue: q, Timeout: timeout, Logger: slog.New(slog.DiscardHandler)}
}

func openPostgres(t *testing.T, driver, dsn string) (*sql.DB, *postgres.Backend) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db, q
}

func execute(t *testing.T, db queue.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

const (
	misfit    = "503 not ready: the database's schema does not fit this program"
	cannotAsk = "503 not ready: the database cannot be asked"
)

func TestPostgres(t *testing.T) {
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, q := openPostgres(t, driver, postgrestest.DSN(t))
			wantAnswer(t, "a migrated schema", readiness(q, 0), "200 ready")
			execute(t, db, `INSERT INTO errand.migrations (version, name) VALUES (1000, 'later')`)
			wantAnswer(t, "a newer schema", readiness(q, 0), "200 ready")
			execute(t, db, `DELETE FROM errand.migrations WHERE version > 1`)
			wantAnswer(t, "an older schema", readiness(q, 0), misfit)
			execute(t, db, `DROP SCHEMA errand CASCADE`)
			wantAnswer(t, "no schema", readiness(q, 0), misfit)
		})
	}
}

// TestPostgresSlow: a database that does not answer in time is not ready, and is again afterwards.
func TestPostgresSlow(t *testing.T) {
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, q := openPostgres(t, driver, postgrestest.DSN(t))
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			execute(t, tx, `LOCK TABLE errand.migrations`)
			const timeout = 200 * time.Millisecond
			began := time.Now()
			wantAnswer(t, "beside a lock", readiness(q, timeout), "503 not ready: the database does not answer within 200ms")
			if took := time.Since(began); took < timeout || took > 5*time.Second {
				t.Errorf("the answer took %v, want %v", took, timeout)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			wantAnswer(t, "without the lock", readiness(q, 10*time.Second), "200 ready")
		})
	}
}

// TestPostgresDown: a server that refuses connections, and one that accepts them and says nothing.
func TestPostgresDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", Host: listener.Addr().String(), Path: "/none", User: url.User("none"), RawQuery: "sslmode=disable"}
	for _, driver := range []string{"pgx", "postgres"} {
		_, q := openPostgres(t, driver, u.String())
		wantAnswer(t, driver+": a server that says nothing", readiness(q, 200*time.Millisecond), "503 not ready: the database does not answer within 200ms")
	}
	listener.Close()
	for _, driver := range []string{"pgx", "postgres"} {
		_, q := openPostgres(t, driver, u.String())
		wantAnswer(t, driver+": a server that is down", readiness(q, 10*time.Second), cannotAsk)
	}
}

func TestSQLite(t *testing.T) {
	db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "jobs.db")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, "no tables", readiness(q, 0), misfit)
	if err := sqlite.Migrate(t.Context(), db, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, "migrated tables", readiness(q, 0), "200 ready")
	tx, err := db.BeginTx(t.Context(), nil) // with the write lock
	if err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, "beside a writer", readiness(q, 0), "200 ready")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	execute(t, db, `INSERT INTO errand_migrations (version, name) VALUES (1000, 'later')`)
	wantAnswer(t, "newer tables", readiness(q, 0), "200 ready")
	execute(t, db, `DELETE FROM errand_migrations WHERE version > 1`)
	wantAnswer(t, "older tables", readiness(q, 0), misfit)
}
