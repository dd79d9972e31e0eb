// Package overtx holds no code: only the test of what docs/integrations.md says about opening
// a library over the *sql.Tx of middleware.Tx.
package overtx

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/examples/internal/demo"
	"github.com/errandhq/errand/examples/internal/demo/demotest"
	"github.com/errandhq/errand/examples/internal/generated/ent"
	"github.com/errandhq/errand/examples/internal/generated/shopdb"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// Receipt is a row of the table receipts, and the payload of SendReceipt.
type Receipt struct {
	OrderID int64 `json:"order_id" db:"order_id"`
}

var SendReceipt = queue.NewKind[Receipt]("receipt.send")

func overSqlx(tx *sql.Tx) *sqlx.Tx { return &sqlx.Tx{Tx: tx, Mapper: mapper} }

var mapper = sqlx.NewDb(nil, "pgx").Mapper // or that of your *sqlx.DB

func overGorm(tx *sql.Tx) (*gorm.DB, error) {
	return gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: tx}), &gorm.Config{})
}

func overEnt(tx *sql.Tx) *ent.Client {
	drv := entsql.NewDriver(dialect.Postgres, entsql.Conn{ExecQuerier: tx})
	return ent.NewClient(ent.Driver(joined{drv}))
}

// joined keeps ent from beginning a transaction where it already is in one.
type joined struct{ *entsql.Driver }

func (d joined) Tx(context.Context) (dialect.Tx, error) { return dialect.NopTx(d), nil }

// writers write a receipt with each of the libraries in tx.
var writers = map[string]func(ctx context.Context, db *sql.DB, tx *sql.Tx, r Receipt) error{
	"sqlc": func(ctx context.Context, _ *sql.DB, tx *sql.Tx, r Receipt) error {
		return shopdb.New(tx).CreateReceipt(ctx, r.OrderID)
	},
	"sqlx": func(ctx context.Context, _ *sql.DB, tx *sql.Tx, r Receipt) error {
		var got Receipt
		return overSqlx(tx).GetContext(ctx, &got, `INSERT INTO receipts (order_id) VALUES ($1) RETURNING order_id`, r.OrderID)
	},
	"sqlx, named": func(ctx context.Context, _ *sql.DB, tx *sql.Tx, r Receipt) error {
		query, args, err := sqlx.Named(`INSERT INTO receipts (order_id) VALUES (:order_id)`, r)
		if err != nil {
			return err
		}
		_, err = overSqlx(tx).ExecContext(ctx, sqlx.Rebind(sqlx.DOLLAR, query), args...)
		return err
	},
	"gorm": func(ctx context.Context, _ *sql.DB, tx *sql.Tx, r Receipt) error {
		db, err := overGorm(tx)
		if err != nil {
			return err
		}
		return db.WithContext(ctx).Create(&r).Error
	},
	"gorm, nested": func(ctx context.Context, _ *sql.DB, tx *sql.Tx, r Receipt) error {
		db, err := overGorm(tx)
		if err != nil {
			return err
		}
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return tx.Create(&r).Error })
	},
	"bun": func(ctx context.Context, db *sql.DB, tx *sql.Tx, r Receipt) error {
		_, err := bun.NewDB(db, pgdialect.New()).NewInsert().Model(&r).Conn(tx).Exec(ctx)
		return err
	},
	"ent": func(ctx context.Context, _ *sql.DB, tx *sql.Tx, r Receipt) error {
		row, err := overEnt(tx).Receipt.Create().SetOrderID(-r.OrderID).Save(ctx)
		if err != nil {
			return err
		}
		return row.Update().SetOrderID(r.OrderID).Exec(ctx)
	},
}

// TestOverTx: what a library writes is committed with the settling of the job, and rolled back with
// it.
func TestOverTx(t *testing.T) {
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			dsn := postgrestest.DSN(t)
			db, q := open(t, dsn)
			jam := errors.New("paper jam")
			mux := queue.NewMux()
			SendReceipt.Handle(mux, func(ctx context.Context, job *queue.Job, r Receipt) error {
				tx, ok := middleware.TxFrom(ctx)
				if !ok {
					t.Fatal("no transaction")
				}
				if err := write(ctx, db, tx, r); err != nil {
					return err
				}
				if job.Attempt == 1 {
					return jam
				}
				return nil
			})
			h := queue.Chain(mux, middleware.Tx(db, q, middleware.TxOptions{}))
			if err := q.Enqueue(t.Context(), nil, SendReceipt.New(Receipt{OrderID: 7})); err != nil {
				t.Fatal(err)
			}

			job := claim(t, q)
			if err := h.HandleJob(t.Context(), job); !errors.Is(err, jam) {
				t.Fatalf("first run: got %v, want %v", err, jam)
			}
			demotest.WantAccount(t, dsn, "after the first run", demo.Account{Other: 1, Runs: 1})
			if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: job, Action: queue.Retry, Err: jam}); err != nil {
				t.Fatal(err)
			}
			if err := h.HandleJob(t.Context(), claim(t, q)); !errors.Is(err, queue.ErrSettled) {
				t.Fatalf("second run: got %v, want %v", err, queue.ErrSettled)
			}
			demotest.WantAccount(t, dsn, "after the second run", demo.Account{Receipts: 1, Completed: 1, Runs: 2})
		})
	}
}

func open(t *testing.T, dsn string) (*sql.DB, *postgres.Backend) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := demo.CreateTables(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db, q
}

func claim(t *testing.T, q queue.Consumer) *queue.Job {
	t.Helper()
	jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "test"})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("Claim: %d jobs, %v", len(jobs), err)
	}
	return jobs[0]
}

// TestNamedNeedsADriver: sqlx does not know whose placeholders such a transaction wants.
func TestNamedNeedsADriver(t *testing.T) {
	db, _ := open(t, postgrestest.DSN(t))
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := overSqlx(tx).NamedExecContext(t.Context(), `INSERT INTO receipts (order_id) VALUES (:order_id)`, Receipt{OrderID: 1}); err == nil {
		t.Error("NamedExecContext works over a *sql.Tx: docs/integrations.md says that it does not")
	}
}
