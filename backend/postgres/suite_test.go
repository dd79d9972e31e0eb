package postgres_test

import (
	"context"
	"math"
	"testing"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestConformance runs the suite that every backend passes over both drivers, and
// over pgx in each of its query modes.
func TestConformance(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T) backendtest.Harness {
				db, listen := w.open(t, postgrestest.DSN(t))
				const forever = math.MaxInt64 // see the case "pruning leaves what is young"
				keep := queue.Retention{Completed: forever, Dead: forever}
				return backendtest.Harness{
					Queue: backend(t, db, postgres.Options{Listen: listen, Retention: keep}),
					Begin: func(ctx context.Context) (queuetest.Tx, error) { return db.BeginTx(ctx, nil) },
				}
			})
		})
	}
}
