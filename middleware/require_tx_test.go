package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// A pool in place of the transaction compiles, and its job would outlive a rollback. With RequireTx
// that is an error, and nothing is written.
func ExampleRequireTx() {
	type Receipt struct{ Order int }
	var send = queue.NewKind[Receipt]("receipt.send")

	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	enqueuer := queue.ChainEnqueuer(q, middleware.RequireTx)
	fmt.Println(enqueuer.Enqueue(ctx, nil, send.New(Receipt{Order: 7})))

	tx, err := q.Begin(ctx) // in the program: db.BeginTx
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(enqueuer.Enqueue(ctx, tx, send.New(Receipt{Order: 7})), tx.Commit())
	// Output:
	// queue: invalid DB: nil, which means the queue's own handle: RequireTx wants the caller's transaction
	// <nil> <nil>
}

// onlyRuns is a wrapper of an application's own that hides what it wraps.
type onlyRuns struct{ queue.DB }

// own is a wrapper that shows a transaction that was begun by hand.
type own struct{ *sql.Conn }

func (o own) Commit() error   { return o.run("COMMIT") }
func (o own) Rollback() error { return o.run("ROLLBACK") }

func (o own) run(query string) error {
	_, err := o.ExecContext(context.Background(), query)
	return err
}

// wantRefused expects an error for DB, and that no job is written.
func wantRefused(t *testing.T, q queue.Queue, db queue.DB, part string) {
	t.Helper()
	job := pay.New(payment{})
	err := queue.ChainEnqueuer(q, middleware.RequireTx).Enqueue(t.Context(), db, job)
	var bad *queue.InvalidError
	if !errors.As(err, &bad) || bad.Field != "DB" || !strings.Contains(bad.Problem, part) {
		t.Errorf("%T: got %v, want an InvalidError for DB with %q", db, err, part)
	}
	queuetest.WantNoJob(t, q, pay)
	if job.ID != 0 {
		t.Errorf("%T: the job has the ID %d, want none", db, job.ID)
	}
}

// wantAccepted expects that the job is written, and is no more once end has ended the transaction.
func wantAccepted(t *testing.T, q queue.Queue, db queue.DB, end func() error) {
	t.Helper()
	job := pay.New(payment{})
	if err := queue.ChainEnqueuer(q, middleware.RequireTx).Enqueue(t.Context(), db, job); err != nil || job.ID == 0 {
		t.Errorf("%T: got ID %d, %v; want an ID and no error", db, job.ID, err)
	}
	if err := end(); err != nil {
		t.Errorf("%T: end of the transaction: %v", db, err)
	}
	queuetest.WantNoJob(t, q, pay)
}

// sqlHandles checks what database/sql and sqlx have.
func sqlHandles(t *testing.T, q queue.Queue, db *sql.DB, driver string) {
	t.Helper()
	dbx := sqlx.NewDb(db, driver)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, q, nil, "nil, which means")
	wantRefused(t, q, (*sql.Tx)(nil), "a nil *sql.Tx")
	wantRefused(t, q, db, "a *sql.DB, which is a pool")
	wantRefused(t, q, dbx, "a *sqlx.DB, which is a pool")
	wantRefused(t, q, conn, "does not show that it is in a transaction")
	wantRefused(t, q, onlyRuns{db}, "no Commit and Rollback")

	mustExec(t, conn, "BEGIN")
	wantRefused(t, q, conn, "does not show that it is in a transaction")
	wantAccepted(t, q, own{conn}, own{conn}.Rollback)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}

	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantAccepted(t, q, tx, tx.Rollback)
	txx, err := dbx.Beginx()
	if err != nil {
		t.Fatal(err)
	}
	wantAccepted(t, q, txx, txx.Rollback)
}

func mustExec(t *testing.T, db queue.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestRequireTxMemory(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	wantRefused(t, q, nil, "nil, which means")
	wantRefused(t, q, new(sql.DB), "a *sql.DB, which is a pool")
	tx, err := q.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantAccepted(t, q, tx, tx.Rollback)
}

func TestRequireTxSQLite(t *testing.T) {
	for _, driver := range []string{"sqlite", "sqlite3"} {
		t.Run(driver, func(t *testing.T) {
			db, q := openSQLite(t, driver)
			sqlHandles(t, q, db, driver)
		})
	}
}

func TestRequireTxPostgres(t *testing.T) {
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			db, err := sql.Open(driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			q, err := postgres.New(db, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			sqlHandles(t, q, db, driver)
			if driver == "pgx" {
				pgxHandles(t, q, dsn)
			}
		})
	}
}

// pgxHandles checks what pgx has without database/sql.
func pgxHandles(t *testing.T, q queue.Queue, dsn string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	wantRefused(t, q, pgxadapter.DB(pool), "does not show that it is in a transaction")
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rollback := func() error { return tx.Rollback(context.Background()) }
	wantAccepted(t, q, pgxadapter.Tx(tx), func() error { return nil })
	wantAccepted(t, q, pgxadapter.DB(tx), rollback)
}
