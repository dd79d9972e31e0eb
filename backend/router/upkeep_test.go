package router_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// unreclaimed is a backend that cannot reclaim, and works otherwise.
type unreclaimed struct{ *faulty }

func (unreclaimed) Reclaim(context.Context, int) ([]*queue.Job, error) {
	return nil, errors.New("permission denied")
}

// TestReclaimBesideFailing: a backend that fails does not keep a worker from reclaiming more than a
// batch of another's jobs at a time.
func TestReclaimBesideFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		clicks := newFaulty()
		crash(t, clicks, "clicks", n)
		q := route(t, router.Routes{"*": unreclaimed{newFaulty()}, "clicks": clicks}, router.Options{Logger: quiet})
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second) // three looks at most
		defer cancel()
		if err := (engine.Worker{Backend: q, Queues: []string{"clicks"}, Handler: done, Logger: quiet}).Run(ctx); err != nil {
			t.Fatal(err)
		}
		counts, err := clicks.Counts(t.Context())
		if err != nil || len(counts) != 1 || counts[0].Status != queue.StatusDead || counts[0].Jobs != n {
			t.Errorf("%+v, error %v; want %d dead jobs", counts, err, n)
		}
	})
}

// missing is a home without its tables.
type missing struct{ *faulty }

func (missing) Claim(context.Context, queue.ClaimRequest) ([]*queue.Job, error) {
	return nil, &queue.SetupError{Problem: "the table is missing", Err: errors.New("no table")}
}

// TestUpkeepCannotBegin: Upkeep returns at once if its options are wrong or the home is not set up,
// so a worker logs that the outbox is not forwarded.
func TestUpkeepCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := newTwo(t).Upkeep(ctx, driver.UpkeepOptions{Logger: quiet, Grace: -1}); err == nil || ctx.Err() != nil {
			t.Errorf("Grace -1: error %v, after a minute: %v; want one at once", err, ctx.Err() != nil)
		}
		q := route(t, router.Routes{"*": missing{newFaulty()}, "clicks": newFaulty()}, router.Options{Logger: quiet})
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}); err == nil || ctx.Err() != nil {
			t.Errorf("a home that is not set up: error %v, after a minute: %v; want one at once", err, ctx.Err() != nil)
		}
		var log bytes.Buffer
		w := engine.Worker{Backend: q, Handler: done, Queues: []string{"clicks"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		if err := w.Run(ctx); err != nil || strings.Count(log.String(), "upkeep of the backend has ended") != 1 {
			t.Errorf("a worker of clicks: error %v; want a record:\n%s", err, &log)
		}
	})
}

// hoarding is a home that takes its time to delete jobs.
type hoarding struct {
	*faulty
	took time.Duration
}

func (s hoarding) Delete(ctx context.Context, db queue.DB, which queue.Selection) (int, error) {
	select {
	case <-time.After(s.took):
		return s.faulty.Delete(ctx, db, which)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// TestArrivedBeforeStop: what arrives just before its forwarder stops is not left in the outbox,
// also if others are being deleted then. A home that does not answer holds the stop up for two
// seconds at most.
func TestArrivedBeforeStop(t *testing.T) {
	for _, c := range []struct {
		jobs int
		took time.Duration // to delete some
		stop time.Duration // after they were enqueued
		left int
	}{{1, 0, 100 * time.Millisecond, 0}, {2500, 300 * time.Millisecond, 1100 * time.Millisecond, 0}, {1, time.Hour, 1100 * time.Millisecond, 1}} {
		synctest.Test(t, func(t *testing.T) {
			home, clicks := newFaulty(), newFaulty()
			q := route(t, router.Routes{"*": hoarding{home, c.took}, "clicks": clicks}, router.Options{Logger: quiet})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}) }()
			time.Sleep(10 * time.Second)
			for i := range c.jobs {
				commit(t, home.Queue, q, job("clicks", i))
			}
			time.Sleep(c.stop)
			cancel()
			stopped := time.Now()
			if err := <-ended; err != nil || time.Since(stopped) > 2*time.Second {
				t.Errorf("%+v: error %v after %v", c, err, time.Since(stopped))
			}
			arrived, err := clicks.Counts(t.Context())
			left, errHome := home.Counts(t.Context())
			if err := errors.Join(err, errHome); err != nil || len(arrived) != 1 || arrived[0].Jobs != int64(c.jobs) || len(left) != c.left {
				t.Errorf("%+v: arrived %+v, left in the home %+v, error %v", c, arrived, left, err)
			}
		})
	}
}
