package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/browser"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// dashboardKill is how long after the form was sent the dashboard's process is killed.
const dashboardKill = time.Second

// measureBulk retries the dead jobs of the default queue through the pages, beside a drain.
func (s *site) measureBulk(ctx context.Context) ([]result.Figure, error) {
	alone, err := s.beside(ctx, true, func(ctx context.Context, _ harness.Crew) error {
		return wait(ctx, s.Duration(claimsAloneTime))
	})
	if err != nil {
		return nil, err
	}
	var took time.Duration
	restart := func() error { return s.start(ctx) } // not with the context of the drain, which ends the process
	with, err := s.beside(ctx, true, func(ctx context.Context, _ harness.Crew) error {
		from := time.Now()
		err := s.retryAll(ctx, restart)
		took = time.Since(from)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.checkRetried(ctx); err != nil {
		return nil, err
	}
	return []result.Figure{
		{Case: bulkCase, Metric: result.Took, Value: took.Seconds()},
		{Case: bulkCase, Metric: result.ClaimGrowth, Value: with["claim_p99"] / alone["claim_p99"]},
		{Case: bulkCase, Metric: result.ClaimP50, Value: with["claim_p50"]},
		{Case: bulkCase, Metric: result.ClaimP99, Value: with["claim_p99"]},
		{Case: "no " + bulkCase, Metric: result.ClaimP50, Value: alone["claim_p50"]},
		{Case: "no " + bulkCase, Metric: result.ClaimP99, Value: alone["claim_p99"]},
	}, nil
}

// retryAll retries the jobs. In the middle of its second step the dashboard's process is killed,
// and another one started by restart.
func (s *site) retryAll(ctx context.Context, restart func() error) error {
	bulk, err := browser.NewBulk(ctx, s.root(), "bulk?action=redrive&status=dead&queue=default")
	if err != nil {
		return err
	}
	for step := 0; !bulk.IsDone(); step++ {
		if step != 1 {
			if err := bulk.Step(ctx); err != nil {
				return err
			}
			continue
		}
		stepped := make(chan struct{})
		go func() {
			defer close(stepped)
			_ = bulk.Step(ctx) // the process is killed meanwhile
		}()
		if err := wait(ctx, s.Duration(dashboardKill)); err != nil {
			return err
		}
		s.kill()
		<-stepped
		if err := restart(); err != nil {
			return err
		}
	}
	return nil
}

// checkRetried fails unless each of the jobs was retried once, and the audit log says so.
func (s *site) checkRetried(ctx context.Context) error {
	for _, c := range []struct {
		what, query string
		want        int
	}{
		{"dead jobs left", `SELECT count(*) FROM errand.jobs WHERE status = 'dead' AND queue = 'default'`, 0},
		{"jobs retried", `SELECT count(*) FROM errand.jobs WHERE redrives = 1`, s.Jobs(dashboardRows) / deadShare},
		{"jobs retried more than once", `SELECT count(*) FROM errand.jobs WHERE redrives > 1`, 0},
		{"jobs retried by the audit log", `SELECT sum(count)::bigint FROM errand.audit WHERE action = 'jobs.redrive'`, s.Jobs(dashboardRows) / deadShare},
	} {
		n, err := s.Postgres.Number(ctx, c.query)
		if err != nil {
			return err
		}
		if n != int64(c.want) {
			return fmt.Errorf("%s: %d, want %d", c.what, n, c.want)
		}
	}
	return nil
}
