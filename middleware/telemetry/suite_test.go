package telemetry_test

import (
	"context"
	"testing"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestConformance runs the suite over the wrapped memory backend: wrapping changes nothing. Without
// ERRAND_TESTS=whole it runs it in brief.
func TestConformance(t *testing.T) {
	extent.Long(t)
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		r := newRig(t, telemetry.Options{})
		return backendtest.Harness{
			Queue: unheaded{r.queue, r.memory},
			Begin: func(ctx context.Context) (queuetest.Tx, error) { return r.memory.Begin(ctx) },
			Brief: !extent.Whole(),
		}
	})
}

// unheaded takes the one thing that is added to jobs, a header, away from what comes back.
type unheaded struct {
	queue.Queue
	driver.Inspector
}

func (u unheaded) Unwrap() queue.Queue { return u.Queue }

func (u unheaded) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	jobs, err := u.Queue.Claim(ctx, req)
	for _, job := range jobs {
		delete(job.Headers, "traceparent")
	}
	return jobs, err
}

func (u unheaded) Jobs(ctx context.Context, f queue.Filter) ([]queue.Record, int64, error) {
	records, next, err := u.Inspector.Jobs(ctx, f)
	for _, r := range records {
		delete(r.Headers, "traceparent")
	}
	return records, next, err
}

func (u unheaded) Job(ctx context.Context, id int64) (queue.Record, bool, error) {
	r, ok, err := u.Inspector.Job(ctx, id)
	delete(r.Headers, "traceparent")
	return r, ok, err
}
