package jobs

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
)

// TestInterruptedAction: an action that is interrupted says how many jobs it has changed.
func TestInterruptedAction(t *testing.T) {
	d := clitest.OpenWithJobs(t, clitest.Backends[0].URL(t, t.TempDir()), 2*batch)
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
	a := app{&cli.App{Out: io.Discard, Err: &said, Timeout: time.Minute}}
	err := a.operate(ctx, d, op, selection{filter: queue.Filter{Queue: queue.DefaultQueue}, yes: true, max: 2 * batch})
	if !errors.Is(err, context.Canceled) || !strings.Contains(said.String(), "errand: 1000 of 2000 jobs cancelled\n") {
		t.Errorf("%v, %s", err, &said)
	}
}

// TestProgressOfJobs: an action on many jobs that takes long says how far it is.
func TestProgressOfJobs(t *testing.T) {
	t.Parallel()
	d := clitest.OpenWithJobs(t, clitest.Backends[0].URL(t, t.TempDir()), 1)
	jobs := make([]queue.Record, 3*batch)
	for i := range jobs {
		jobs[i].ID, jobs[i].Status = int64(i+1), queue.StatusPending
	}
	slow := &operation{name: "cancel", statuses: live, change: func(_ context.Context, _ *dburl.Database, _ queue.DB, which queue.Selection) (int, error) {
		time.Sleep(time.Second)
		return len(which.IDs), nil
	}}
	var out strings.Builder
	done, err := (app{&cli.App{Err: &out, Timeout: time.Minute}}).change(t.Context(), d, slow, selection{}, jobs)
	if err != nil || done != len(jobs) {
		t.Errorf("%d jobs done, %v", done, err)
	}
	if want := regexp.MustCompile(`^cancel: [12]000 of 3000, \d+s\n(.*\n)*cancel: 3000 of 3000, \d+s\n$`); !want.MatchString(out.String()) {
		t.Errorf("it said %q, want %s", &out, want)
	}
}
