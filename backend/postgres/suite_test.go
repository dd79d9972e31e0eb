package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/internal/dbtest"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestConformance runs the suite that every backend passes over pgx, and its cases with
// transactions over lib/pq. With ERRAND_TESTS=whole it runs all of it over lib/pq, and in brief
// over pgx in its other query modes, which reach the same statements in another way. With -short
// it runs it over pgx alone. It is not parallel to other tests: it measures how soon workers wake.
// All tables are published, as for change-data capture: then the server refuses to change the rows
// of a table that has no key, whatever wal_level is.
func TestConformance(t *testing.T) {
	for _, w := range testedWays() {
		t.Run(w.name, func(t *testing.T) {
			suite := t
			p := &dbtest.Pool[database]{
				Open: func() (d database) {
					d.db, d.listen = w.open(suite, postgrestest.DSN(suite))
					exec(suite, d.db, `CREATE PUBLICATION everything FOR ALL TABLES`)
					return d
				},
				DB: func(d database) *sql.DB { return d.db },
			}
			backendtest.Run(t, func(t *testing.T) backendtest.Harness {
				d := p.Take(t)
				const forever = math.MaxInt64 // see the case "pruning leaves what is young"
				keep := queue.Retention{Completed: forever, Dead: forever}
				b := backend(t, d.db, postgres.Options{Listen: d.listen, Retention: keep})
				return backendtest.Harness{
					Brief:  w.mode != "" || w != ways[0] && !extent.Whole() || testing.Short(),
					OnlyTx: w != ways[0] && !extent.Whole(),
					Hold: func(ctx context.Context, id int64) error {
						_, err := d.db.ExecContext(ctx, `UPDATE errand.jobs SET status = 'held' WHERE id = $1`, id)
						return err
					},
					Queue: b,
					Begin: func(ctx context.Context) (queuetest.Tx, error) { return d.db.BeginTx(ctx, nil) },
					Rewind: func(t *testing.T, by time.Duration) {
						exec(t, d.db, fmt.Sprintf(`UPDATE errand.schedules SET next_at = next_at - %d * interval '1 microsecond'`, by.Microseconds()))
						exec(t, d.db, fmt.Sprintf(`UPDATE errand.stats SET minute = minute - %d * interval '1 microsecond'`, by.Microseconds()))
						exec(t, d.db, fmt.Sprintf(`UPDATE errand.workers SET seen_at = seen_at - %d * interval '1 microsecond'`, by.Microseconds()))
						postgres.ForgetTick(b)
					},
				}
			})
		})
	}
}

// database is one of a suite's, as its cases reach it.
type database struct {
	db     *sql.DB
	listen postgres.Listen
}
