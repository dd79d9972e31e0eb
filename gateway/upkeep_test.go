package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
)

// denied is a backend that may be denied to fire schedules.
type denied struct {
	*memory.Queue
	is atomic.Bool
}

func (d *denied) FireSchedules(ctx context.Context) (int, time.Duration, error) {
	if d.is.Load() {
		return 0, -1, errors.New("permission denied")
	}
	return d.Queue.FireSchedules(ctx)
}

// TestUpkeepLog: a failure that goes on is logged once a minute, and when it is over.
func TestUpkeepLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &denied{Queue: memory.New(memory.Options{})}
		q.is.Store(true)
		var log bytes.Buffer
		h, err := gateway.New(q, gateway.Options{Tokens: everything, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Minute + 30*time.Second)
		q.is.Store(false)
		time.Sleep(time.Minute)
		h.Close()
		if failed, works := strings.Count(log.String(), "firing schedules failed"), strings.Count(log.String(), "firing schedules works again"); failed != 3 || works != 1 {
			t.Errorf("%d records of failures, %d that it works again; want 3 and 1:\n%s", failed, works, &log)
		}
	})
}
