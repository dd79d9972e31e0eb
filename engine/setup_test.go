package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

var errNoTable = errors.New("no such table")

func notSetUp() error {
	return fmt.Errorf("claim: %w", &queue.SetupError{Problem: "no tables: run Migrate", Err: errNoTable})
}

// failing is a queue whose claims fail with the error that err returns.
func failing(t *testing.T, err func() error) *meddled {
	return &meddled{Queue: newQueue(t, 1), before: func(_ context.Context, c call) error {
		if c.operation == "claim" || c.operation == "reclaim" {
			return err()
		}
		return nil
	}}
}

// TestNotSetUp: Run returns an error if the first answered claim finds no tables, also after an
// outage.
func TestNotSetUp(t *testing.T) {
	for _, first := range []int64{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			var claims atomic.Int64
			q := failing(t, func() error {
				if claims.Add(1) <= first {
					return errDown
				}
				return notSetUp()
			})
			w := start(t, engine.Worker{Backend: q, Handler: taking(0)})
			took, err := w.wait()
			var setup *queue.SetupError
			if !errors.As(err, &setup) || !errors.Is(err, errNoTable) || took > time.Second {
				t.Fatalf("Run returned %v after %v, want a SetupError at once", err, took)
			}
			wantText(t, err.Error(), "run Migrate")
		})
	}
}

// TestNotSetUpLater: after a successful claim, the worker retries in spite of such an error.
func TestNotSetUpLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		q := failing(t, func() error {
			if gone.Load() {
				return notSetUp()
			}
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: taking(0)})
		until(t, "the first job completed", func() bool { return count(t, q, queue.StatusCompleted) == 1 })
		gone.Store(true)
		time.Sleep(time.Minute)
		gone.Store(false)
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"}); err != nil {
			t.Fatal(err)
		}
		until(t, "the second job completed", func() bool { return count(t, q, queue.StatusCompleted) == 2 })
		w.stop()
		w.log.wantLogged(t, 1, "errand: claim failed, will retry")
	})
}

// TestOutageChanges: the worker logs each different error of an outage once, whatever numbers it
// contains.
func TestOutageChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures atomic.Int64
		q := failing(t, func() error {
			n := failures.Add(1)
			if n%2 == 0 {
				return errors.New("permission denied")
			}
			return fmt.Errorf("connection refused from port %d", n)
		})
		w := start(t, engine.Worker{Backend: q, Handler: taking(0), Lease: time.Hour})
		time.Sleep(time.Minute)
		w.stop()
		w.log.wantLogged(t, 2, "errand: claim failed, will retry")
	})
}
