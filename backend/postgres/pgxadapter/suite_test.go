package pgxadapter_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/internal/dbtest"
	"github.com/errandhq/errand/backend/postgres/pgxadapter"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestConformance runs the suite that every backend passes on a pool of pgx: what is in a
// transaction goes through the adapter, all else through the pool's *sql.DB, as in the tests of
// package postgres. So it runs the cases with transactions. With ERRAND_TESTS=whole it runs all of
// it, and in brief in pgx's simple protocol.
func TestConformance(t *testing.T) {
	extent.Long(t)
	for _, mode := range []string{"cache_statement", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			if mode != "cache_statement" {
				if !extent.Whole() {
					t.Skip("ERRAND_TESTS=whole runs it: the suite runs in pgx's default mode")
				}
			}
			suite := t
			databases := &dbtest.Pool[pooled]{
				Open: func() (d pooled) {
					d.pool = openPool(suite, mode)
					d.db, _ = overPool(suite, d.pool)
					return d
				},
				DB: func(d pooled) *sql.DB { return d.db },
			}
			backendtest.Run(t, func(t *testing.T) backendtest.Harness {
				d := databases.Take(t)
				pool, db := d.pool, d.db
				q := over(t, db)
				return backendtest.Harness{
					Brief:  mode != "cache_statement" || !extent.Whole(),
					OnlyTx: !extent.Whole(),
					Queue:  q,
					Begin: func(ctx context.Context) (queuetest.Tx, error) {
						tx, err := pool.Begin(ctx)
						return suiteTx{pgxadapter.Tx(tx), tx}, err
					},
					Rewind: func(t *testing.T, by time.Duration) {
						exec(t, db, fmt.Sprintf(`UPDATE errand.schedules SET next_at = next_at - %d * interval '1 microsecond'`, by.Microseconds()))
						exec(t, db, fmt.Sprintf(`UPDATE errand.stats SET minute = minute - %d * interval '1 microsecond'`, by.Microseconds()))
						exec(t, db, fmt.Sprintf(`UPDATE errand.workers SET seen_at = seen_at - %d * interval '1 microsecond'`, by.Microseconds()))
						if _, err := q.Sleep(t.Context(), "rewinds", []string{"none"}); err != nil { // reads the next tick again
							t.Fatal(err)
						}
					},
				}
			})
		})
	}
}

// pooled is a database, as the suite's cases reach it.
type pooled struct {
	pool *pgxpool.Pool
	db   *sql.DB
}

// suiteTx ends a transaction the way that database/sql's do.
type suiteTx struct {
	queue.DB
	tx pgx.Tx
}

func (t suiteTx) Commit() error   { return t.tx.Commit(context.Background()) }
func (t suiteTx) Rollback() error { return t.tx.Rollback(context.Background()) }
