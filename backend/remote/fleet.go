package remote

import (
	"context"
	"fmt"
	"net/http"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue/driver"
)

// ReportWorkers implements [driver.Fleet]. It sends one request for each report, in their order:
// the gateway gathers the reports of all its clients. A worker has one at a time.
func (q *Queue) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	if err := driver.CheckReports(reports...); err != nil {
		return err
	}
	for _, r := range reports {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("remote: report: %w", err)
		}
		c := call{operation: "report", method: http.MethodPost, path: "/v1/report", in: wire.ReportOf(r), out: new(wire.ReportAnswer)}
		if err := q.do(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Workers implements [driver.Fleet].
func (q *Queue) Workers(ctx context.Context) ([]driver.WorkerRecord, error) {
	var out wire.WorkersAnswer
	err := q.get(ctx, "workers", "/v1/workers", &out)
	return out.Workers, err
}

// Runs implements [driver.Fleet].
func (q *Queue) Runs(ctx context.Context, most int, workers ...string) ([]driver.RunningJob, error) {
	if err := driver.CheckRuns(most, workers); err != nil {
		return nil, err
	}
	var out wire.RunsAnswer
	c := call{operation: "runs", method: http.MethodPost, path: "/v1/runs", in: wire.RunsRequest{Most: most, Workers: workers}, out: &out}
	err := q.do(ctx, c)
	return out.Runs, err
}
