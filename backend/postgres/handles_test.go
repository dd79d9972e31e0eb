package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// opaque is a handle of an application's own, for example one that traces: it only runs statements.
type opaque struct{ db queue.DB }

func (o opaque) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return o.db.ExecContext(ctx, query, args...)
}

func (o opaque) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return o.db.QueryContext(ctx, query, args...)
}

// prepares is a pool like gorm's with PrepareStmt: it tells its pool by GetDBConn.
type prepares struct {
	opaque
	pool *sql.DB
}

func (p prepares) GetDBConn() (*sql.DB, error) { return p.pool, nil }

// notTx are handles that are no transaction, on which Enqueue takes effect at once.
func notTx(t *testing.T, w way, dsn string) map[string]queue.DB {
	t.Helper()
	db, _ := w.open(t, dsn)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	handles := map[string]queue.DB{
		"*sql.DB":   db,
		"*sqlx.DB":  sqlx.NewDb(db, w.driver),
		"*sql.Conn": conn,
		"gorm's":    prepares{opaque{db}, db},
	}
	if w.driver == "pgx" {
		handles["pgxadapter.DB"] = pgxadapter.DB(poolFor(t, w, dsn))
	}
	return handles
}

func poolFor(t *testing.T, w way, dsn string) *pgxpool.Pool {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if w.mode != "" {
		q := u.Query()
		q.Set("default_query_exec_mode", w.mode)
		u.RawQuery = q.Encode()
	}
	pool, err := pgxpool.New(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// TestUnknownHandles: TestUnknown for each handle of the caller's that is no transaction, whatever
// its type.
func TestUnknownHandles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	answers := map[string]struct {
		answer string
		jobs   []*queue.Job
	}{
		"one":   {"INSERT 0 1\x00", jobs(1)},
		"batch": {"INSERT 0 3\x00", jobs(3)},
		"keyed": {"SELECT 1\x00", []*queue.Job{{Kind: "test", Key: "k"}}},
	}
	for _, w := range testedWays() {
		t.Run(w.name, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			direct, _ := way{driver: "pgx"}.open(t, dsn)
			q := backend(t, direct, postgres.Options{})
			s, through := cutting(t, dsn)
			for what, c := range answers {
				for name, h := range notTx(t, w, through) {
					exec(t, direct, "DELETE FROM errand.jobs")
					answer := w.lastAnswer(c.answer)
					s.on.Store(&answer)
					if err := q.Enqueue(t.Context(), h, c.jobs...); !errors.Is(err, queue.ErrUnknown) {
						t.Errorf("%s, %s: got %v, want %v", what, name, err, queue.ErrUnknown)
					}
					if got := value[int](t, direct, "SELECT count(*) FROM errand.jobs"); got != len(c.jobs) {
						t.Errorf("%s, %s: %d jobs written, want %d", what, name, got, len(c.jobs))
					}
					if s.on.Load() != nil {
						t.Errorf("%s, %s: nothing was cut", what, name)
					}
				}
			}
		})
	}
}

// TestKnownHandles: an error is not ErrUnknown if the server has refused the jobs, or nothing was
// sent.
func TestKnownHandles(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	direct, _ := way{driver: "pgx"}.open(t, dsn)
	q := backend(t, direct, postgres.Options{})
	exec(t, direct, "ALTER TABLE errand.jobs ADD CHECK (kind <> 'test')")
	over, stop := context.WithCancel(t.Context())
	stop()
	for name, h := range notTx(t, ways[0], dsn) {
		if err := q.Enqueue(over, h, jobs(1)...); !errors.Is(err, context.Canceled) || errors.Is(err, queue.ErrUnknown) {
			t.Errorf("%s, with a context that has ended: got %v, want %v alone", name, err, context.Canceled)
		}
		if err := q.Enqueue(t.Context(), h, jobs(1)...); err == nil || errors.Is(err, queue.ErrUnknown) {
			t.Errorf("%s, refused by a constraint: got %v, want another error than %v", name, err, queue.ErrUnknown)
		}
	}
	closed, err := direct.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if err := q.Enqueue(t.Context(), closed, jobs(1)...); !errors.Is(err, sql.ErrConnDone) || errors.Is(err, queue.ErrUnknown) {
		t.Errorf("on a closed connection: got %v, want %v alone", err, sql.ErrConnDone)
	}
}

// TestOpaqueHandle: Enqueue uses a handle that does not show what it is if the server says that it
// is in a transaction. Elsewhere it might send a statement twice, so Enqueue refuses it.
func TestOpaqueHandle(t *testing.T) {
	t.Parallel()
	for _, w := range testedWays() {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{})
			wantInvalidDB(t, "a pool", q.Enqueue(t.Context(), opaque{db}, jobs(1)...))
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if err := q.Enqueue(t.Context(), opaque{tx}, jobs(2)...); err != nil {
				t.Fatal(err)
			}
			if got := claim(t, q, 3); len(got) != 0 {
				t.Errorf("claimed %d jobs before the commit, want 0", len(got))
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if got := claim(t, q, 3); len(got) != 2 {
				t.Errorf("claimed %d jobs after the commit, want 2", len(got))
			}
		})
	}
}

func wantInvalidDB(t *testing.T, what string, err error) {
	t.Helper()
	var bad *queue.InvalidError
	if !errors.As(err, &bad) || bad.Field != "DB" {
		t.Errorf("%s: got %v, want an InvalidError for DB", what, err)
	}
}

// TestClaimTxNeedsATransaction: ClaimTx refuses any other handle, on which the job would be
// completed before it is handled.
func TestClaimTxNeedsATransaction(t *testing.T) {
	t.Parallel()
	for _, w := range testedWays() {
		t.Run(w.name, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			db, _ := w.open(t, dsn)
			q := backend(t, db, postgres.Options{})
			enqueue(t, q, jobs(1)...)
			handles := notTx(t, w, dsn)
			handles["nil"], handles["nil *sql.Tx"], handles["nil *sqlx.Tx"] = nil, (*sql.Tx)(nil), (*sqlx.Tx)(nil)
			handles["opaque"] = opaque{db}
			for name, h := range handles {
				_, err := q.ClaimTx(t.Context(), h, request(1))
				wantInvalidDB(t, name, err)
			}
			if got := claim(t, q, 1); len(got) != 1 {
				t.Errorf("%d jobs left, want 1", len(got))
			}
		})
	}
}
