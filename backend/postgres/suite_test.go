package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestConformance runs the suite that every backend passes over both drivers, and
// over pgx in each of its query modes; with -short over pgx in its default mode.
func TestConformance(t *testing.T) {
	tested := ways
	if testing.Short() {
		tested = ways[:1]
	}
	for _, w := range tested {
		t.Run(w.name, func(t *testing.T) {
			p := &databases{suite: t, way: w}
			backendtest.Run(t, func(t *testing.T) backendtest.Harness {
				d := p.take(t)
				const forever = math.MaxInt64 // see the case "pruning leaves what is young"
				keep := queue.Retention{Completed: forever, Dead: forever}
				b := backend(t, d.db, postgres.Options{Listen: d.listen, Retention: keep})
				return backendtest.Harness{
					Hold: func(ctx context.Context, id int64) error {
						_, err := d.db.ExecContext(ctx, `UPDATE errand.jobs SET status = 'held' WHERE id = $1`, id)
						return err
					},
					Queue: b,
					Begin: func(ctx context.Context) (queuetest.Tx, error) { return d.db.BeginTx(ctx, nil) },
					Rewind: func(t *testing.T, by time.Duration) {
						exec(t, d.db, fmt.Sprintf(`UPDATE errand.schedules SET next_at = next_at - %d * interval '1 microsecond'`, by.Microseconds()))
						postgres.ForgetTick(b)
					},
				}
			})
		})
	}
}

// databases are those of a suite's cases. A case gets one that an earlier case has done with: to
// create one takes the server longer than most cases do.
type databases struct {
	suite *testing.T
	way   way

	mu   sync.Mutex
	free []database
}

type database struct {
	db     *sql.DB
	listen postgres.Listen
}

// take returns a database without jobs. It is the case's until the case has ended.
func (p *databases) take(t *testing.T) (d database) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		d, p.free = p.free[n-1], p.free[:n-1]
	} else {
		d.db, d.listen = p.way.open(p.suite, postgrestest.DSN(p.suite))
	}
	t.Cleanup(func() {
		if !t.Failed() && isEmptied(d.db) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.free = append(p.free, d)
		}
	})
	return d
}

// isEmptied reports whether db is as it was, which it is not if a case has left a transaction open.
// VACUUM removes the dead rows: they slow claims and registrations down, and a worker that
// registers slowly learns of a job later.
func isEmptied(db *sql.DB) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var dead int64
	for _, table := range []string{"sleepers", "schedules", "jobs_archive", "jobs", "rules", "limited_queues", "tokens", "paused_kinds"} {
		r, err := db.ExecContext(ctx, `DELETE FROM errand.`+table)
		if err != nil {
			return false
		}
		n, err := r.RowsAffected()
		if err != nil {
			return false
		}
		dead += n
	}
	tables := `errand.sleepers`
	if dead > 1000 {
		tables += `, errand.jobs`
	}
	_, err := db.ExecContext(ctx, `VACUUM `+tables)
	return err == nil
}
