package middleware_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// The stock is changed in the transaction that settles the job, and the job that follows is
// enqueued in it: all of that happens once, or not at all.
func ExampleTx() {
	type Order struct{ SKU string }
	var reserve = queue.NewKind[Order]("order.reserve")
	var ship = queue.NewKind[Order]("order.ship")

	withDatabase(func(ctx context.Context, db *sql.DB, q queue.Queue) {
		mux := queue.NewMux()
		reserve.Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, job *queue.Job, o Order) error {
			if _, err := tx.ExecContext(ctx, `UPDATE stock SET n = n - 1 WHERE sku = $1`, o.SKU); err != nil {
				return err
			}
			return q.Enqueue(ctx, tx, ship.New(o))
		}))
		ship.Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, job *queue.Job, o Order) error {
			var left int
			err := tx.QueryRowContext(ctx, `SELECT n FROM stock WHERE sku = $1`, o.SKU).Scan(&left)
			fmt.Println("shipped", o.SKU, "and", left, "are left")
			return err
		}))
		if err := q.Enqueue(ctx, nil, reserve.New(Order{SKU: "tea"})); err != nil {
			log.Fatal(err)
		}
		work(ctx, db, q, queue.Chain(mux, middleware.Tx(db, q, middleware.TxOptions{})))
	})
	// Output: shipped tea and 2 are left
}

// In a transaction the key is remembered if and only if the effect is kept.
func ExampleSQLDedup() {
	type Reminder struct{ Customer int }
	var remind = queue.NewKind[Reminder]("reminder.send")

	withDatabase(func(ctx context.Context, db *sql.DB, q queue.Queue) {
		seen := middleware.SQLDedup{} // its table is made by postgres.Migrate
		mux := queue.NewMux()
		remind.Handle(mux, func(ctx context.Context, job *queue.Job, r Reminder) error {
			fmt.Println("reminding customer", r.Customer)
			return nil
		})
		for range 3 {
			if err := q.Enqueue(ctx, nil, remind.New(Reminder{Customer: 7})); err != nil {
				log.Fatal(err)
			}
		}
		work(ctx, db, q, queue.Chain(mux,
			middleware.Tx(db, q, middleware.TxOptions{}),
			middleware.Dedup(seen, 24*time.Hour, func(job *queue.Job) string { return job.Kind + string(job.Payload) }),
		))
	})
	// Output: reminding customer 7
}

// A second job with the same key is done without being run, for an hour after the first has
// succeeded.
func ExampleDedup() {
	type Alert struct{ Host string }
	var alert = queue.NewKind[Alert]("alert.send")

	ctx := context.Background()
	q := queuetest.New(queuetest.Options{})
	mux := queue.NewMux()
	alert.Handle(mux, func(ctx context.Context, job *queue.Job, a Alert) error {
		fmt.Println("alert:", a.Host, "is down")
		return nil
	})
	h := queue.Chain(mux, middleware.Dedup(&middleware.MemoryDedup{}, time.Hour, nil))
	for _, host := range []string{"db1", "db1", "db2"} {
		job := alert.New(Alert{Host: host})
		job.Key = host
		if err := q.Enqueue(ctx, nil, job); err != nil {
			log.Fatal(err)
		}
		if _, err := q.Drain(ctx, h); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// alert: db1 is down
	// alert: db2 is down
}

// withDatabase runs an example on a database that has a queue and a table stock.
func withDatabase(example func(ctx context.Context, db *sql.DB, q queue.Queue)) {
	ctx := context.Background()
	server, err := postgrestest.Start(ctx, postgrestest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	db, err := sql.Open("pgx", server.DSN)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := postgres.Migrate(ctx, db, postgres.Options{}); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE stock AS SELECT 'tea' AS sku, 3 AS n`); err != nil {
		log.Fatal(err)
	}
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	example(ctx, db, q)
}

// work runs a worker until no job is left to be run.
func work(ctx context.Context, db *sql.DB, q queue.Queue, h queue.Handler) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for left := 1; left > 0; time.Sleep(10 * time.Millisecond) {
			err := db.QueryRowContext(ctx, `SELECT count(*) FROM errand.jobs WHERE status IN ('pending', 'running')`).Scan(&left)
			if err != nil {
				log.Fatal(err)
			}
		}
	}()
	if err := (engine.Worker{Backend: q, Handler: h}).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
