// Package handles_test passes the handles of the libraries that integrations.md names to a queue.
package handles_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/examples/internal/generated/ent"
	"github.com/errandhq/errand/queue"
)

// library is what a library makes of a pool: handles in a transaction, and outside of any.
type library struct {
	begin func() (tx queue.DB, commit func() error)
	pools []queue.DB // each takes effect at once
	wrong []queue.DB // each is refused
}

func libraries(t *testing.T, dsn string) map[string]library {
	db := open(t, dsn)
	return map[string]library{
		"sqlx": ofSqlx(t, db), "bun": ofBun(t, db), "ent": ofEnt(t, db), "pgx": ofPgx(t, dsn),
		"gorm":                  ofGorm(t, db, &gorm.Config{}),
		"gorm with PrepareStmt": ofGorm(t, db, &gorm.Config{PrepareStmt: true}),
	}
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func ofSqlx(t *testing.T, std *sql.DB) library {
	db := sqlx.NewDb(std, "pgx")
	conn, err := db.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return library{
		begin: func() (queue.DB, func() error) { tx := db.MustBegin(); return tx, tx.Commit },
		pools: []queue.DB{db, conn},
	}
}

func ofBun(t *testing.T, std *sql.DB) library {
	db := bun.NewDB(std, pgdialect.New())
	return library{
		begin: func() (queue.DB, func() error) {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return tx.Tx, tx.Commit
		},
		pools: []queue.DB{db.DB},
		wrong: []queue.DB{db},
	}
}

func ofEnt(t *testing.T, std *sql.DB) library {
	client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, std)))
	return library{
		begin: func() (queue.DB, func() error) {
			tx, err := client.Tx(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return tx, tx.Commit
		},
		wrong: []queue.DB{client},
	}
}

func ofGorm(t *testing.T, std *sql.DB, config *gorm.Config) library {
	db, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: std}), config)
	if err != nil {
		t.Fatal(err)
	}
	return library{
		begin: func() (queue.DB, func() error) {
			tx := db.Begin()
			return tx.Statement.ConnPool, func() error { return tx.Commit().Error }
		},
		pools: []queue.DB{db.Statement.ConnPool},
	}
}

func ofPgx(t *testing.T, dsn string) library {
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return library{
		begin: func() (queue.DB, func() error) {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return pgxadapter.DB(tx), func() error { return tx.Commit(context.WithoutCancel(t.Context())) }
		},
		pools: []queue.DB{pgxadapter.DB(pool)},
	}
}

// TestHandles: each library's transaction is one, and its pool is none.
func TestHandles(t *testing.T) {
	dsn := postgrestest.DSN(t)
	q, err := postgres.New(open(t, dsn), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range libraries(t, dsn) {
		t.Run(name, func(t *testing.T) {
			tx, commit := l.begin()
			enqueue(t, q, tx)
			wantJobs(t, q, "before the commit", 0)
			if err := commit(); err != nil {
				t.Fatal(err)
			}
			for _, pool := range l.pools {
				enqueue(t, q, pool)
			}
			wantJobs(t, q, "after the commit", 1+len(l.pools))
			for _, db := range l.wrong {
				wantInvalid(t, q.Enqueue(t.Context(), db, &queue.Job{Kind: "k"}))
			}
			enqueue(t, q, nil)
			for _, db := range append(l.pools, l.wrong...) {
				_, err := q.ClaimTx(t.Context(), db, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}})
				wantInvalid(t, err)
			}
			claimTx(t, q, l)
			wantJobs(t, q, "after ClaimTx", 0)
		})
	}
}

// claimTx claims a job in two transactions: in the first it fails, in the second it is done.
func claimTx(t *testing.T, q *postgres.Backend, l library) {
	t.Helper()
	for _, action := range []queue.OutcomeAction{queue.Retry, queue.Done} {
		tx, commit := l.begin()
		job, err := q.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}})
		if err != nil || job == nil {
			t.Fatalf("ClaimTx: %v, %v; want a job", job, err)
		}
		lost, err := q.Settle(t.Context(), tx, queue.Outcome{Job: job, Action: action})
		if err != nil || len(lost) > 0 {
			t.Errorf("Settle %v: lost %v, %v; want neither", action, lost, err)
		}
		if err := commit(); err != nil {
			t.Fatal(err)
		}
	}
}

func enqueue(t *testing.T, q *postgres.Backend, db queue.DB) {
	t.Helper()
	if err := q.Enqueue(t.Context(), db, &queue.Job{Kind: "k"}); err != nil {
		t.Fatalf("through %T: %v", db, err)
	}
}

// wantJobs claims and settles all jobs, of which there must be n.
func wantJobs(t *testing.T, q *postgres.Backend, when string, n int) {
	t.Helper()
	jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 100, Lease: 1e9, Worker: "w"})
	if err != nil || len(jobs) != n {
		t.Errorf("%s: claimed %d jobs (%v), want %d", when, len(jobs), err, n)
	}
	for _, j := range jobs {
		if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
}

func wantInvalid(t *testing.T, err error) {
	t.Helper()
	var bad *queue.InvalidError
	if !errors.As(err, &bad) || bad.Field != "DB" {
		t.Errorf("got %v, want an InvalidError for DB", err)
	}
}
