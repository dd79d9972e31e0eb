package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// TestTxPool: handlers that outlast a heartbeat run once each, with the smallest pool that the
// worker accepts; with a smaller one, of which listening and the handlers may hold every
// connection, it does not start.
func TestTxPool(t *testing.T) {
	extent.Long(t)
	const together, jobs, lease, takes = 8, 16, 6 * time.Second, 2500 * time.Millisecond
	b := openBank(t)
	q, err := postgres.New(b.db, postgres.Options{Listen: pgxlisten.Listen})
	if err != nil {
		t.Fatal(err)
	}
	b.enqueue(jobs)
	mux := queue.NewMux()
	pay.Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, job *queue.Job, _ payment) error {
		time.Sleep(takes)
		return handle(ctx, tx, job)
	}), middleware.Tx(b.db, q, middleware.TxOptions{}))
	for _, size := range []int{together, together + 1, together + 2} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			b.db.SetMaxOpenConns(size)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				ended <- engine.Worker{Backend: q, Handler: mux, Concurrency: together, Lease: lease, Logger: quiet}.Run(ctx)
			}()
			for size == together+2 && b.count(`SELECT count(*) FROM errand.jobs WHERE status <> 'completed'`) > 0 {
				time.Sleep(100 * time.Millisecond)
			}
			if size == together+2 {
				cancel()
			}
			err := <-ended
			var bad *queue.InvalidError
			if refused := errors.As(err, &bad); refused != (size < together+2) || err != nil && !refused {
				t.Errorf("Run: got error %v", err)
			}
		})
	}
	if got := b.count(`SELECT count(*) FROM errand.jobs WHERE attempts = 1`); got != jobs {
		t.Errorf("%d of %d jobs had one attempt", got, jobs)
	}
	if got := b.count(`SELECT count(*) FROM payments`); got != jobs {
		t.Errorf("got %d effects of %d jobs", got, jobs)
	}
}
