package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	is    atomic.Bool
	calls atomic.Int32
	same  bool // whether its errors are
}

func (d *denied) FireSchedules(ctx context.Context) (int, time.Duration, error) {
	if n := d.calls.Add(1); d.is.Load() && d.same {
		return 0, -1, errors.New("permission denied")
	} else if d.is.Load() {
		return 0, -1, fmt.Errorf("permission denied %d times", n)
	}
	return d.Queue.FireSchedules(ctx)
}

// TestUpkeepLog: as a worker does, the gateway logs once that a call begins to fail, also if its
// errors differ in digits, and once that it works again.
func TestUpkeepLog(t *testing.T) {
	for _, same := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { testUpkeepLog(t, same) })
	}
}

func testUpkeepLog(t *testing.T, same bool) {
	const want = 1
	q := &denied{Queue: memory.New(memory.Options{}), same: same}
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
	if failed, works := strings.Count(log.String(), "firing schedules failed"), strings.Count(log.String(), "firing schedules works again"); failed != want || works != 1 {
		t.Errorf("the same error %v: %d records of failures, %d that it works again; want %d and 1:\n%s", same, failed, works, want, &log)
	}
}
