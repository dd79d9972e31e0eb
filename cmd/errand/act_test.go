package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// TestInterruptedAction: an action that is interrupted says how many jobs it has changed.
func TestInterruptedAction(t *testing.T) {
	d := openWithJobs(t, backends[0].url(t, t.TempDir()), 2*batch)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	op := &operation{name: "cancel", past: "cancelled", statuses: live, usual: live[:1],
		change: func(_ context.Context, _ *dburl.Database, _ queue.DB, which queue.Selection) (int, error) {
			if calls++; calls == 2 {
				cancel()
				return 0, ctx.Err()
			}
			return len(which.IDs), nil
		}}
	var said strings.Builder
	a := &app{out: io.Discard, err: &said, timeout: time.Minute}
	err := a.operate(ctx, d, op, selection{filter: queue.Filter{Queue: queue.DefaultQueue}, yes: true, max: 2 * batch})
	if !errors.Is(err, context.Canceled) || !strings.Contains(said.String(), "errand: 1000 of 2000 jobs cancelled\n") {
		t.Errorf("%v, %s", err, &said)
	}
}
