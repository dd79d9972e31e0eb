package pgxadapter_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// BenchmarkEnqueue enqueues n jobs at a time in an open transaction: one of pgx, through the
// adapter, and one of database/sql on pgx/v5/stdlib. They take turns, so that a change of the
// machine's mood shows in both. An operation is one Enqueue.
func BenchmarkEnqueue(b *testing.B) {
	for _, n := range []int{1, 100} {
		for range 5 {
			b.Run(fmt.Sprintf("jobs=%d/pgxadapter", n), func(b *testing.B) {
				pool := openPool(b, "cache_statement")
				_, q := overPool(b, pool)
				benchmarkEnqueue(b, q, pgxadapter.Tx(begin(b, pool)), n)
			})
			b.Run(fmt.Sprintf("jobs=%d/sql.Tx", n), func(b *testing.B) {
				db, err := sql.Open("pgx", postgrestest.DSN(b))
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				q, err := postgres.New(db, postgres.Options{})
				if err != nil {
					b.Fatal(err)
				}
				tx, err := db.BeginTx(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				defer tx.Rollback()
				benchmarkEnqueue(b, q, tx, n)
			})
		}
	}
}

func benchmarkEnqueue(b *testing.B, q queue.Enqueuer, tx queue.DB, n int) {
	jobs := newJobs(n)
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Enqueue(b.Context(), tx, jobs...); err != nil {
			b.Fatal(err)
		}
	}
}
