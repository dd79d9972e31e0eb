package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestSeen: queues and kinds that no job has yet may be paused without a word if a live worker
// serves them or a schedule enqueues such jobs.
func TestSeen(t *testing.T) {
	t.Parallel()
	for _, b := range clitest.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			database := b.URL(t, t.TempDir())
			d := clitest.OpenWithJobs(t, database, 0)
			fleet, _ := driver.As[driver.Fleet](d.Queue)
			worker := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "w", Queues: []string{"emails"}, Kinds: []string{"mail"}}}
			if err := fleet.ReportWorkers(t.Context(), worker); err != nil {
				t.Fatal(err)
			}
			scheduler, _ := driver.As[driver.Scheduler](d.Queue)
			nightly := queue.Schedule{Name: "nightly", Spec: "0 3 * * *", Job: &queue.Job{Kind: "build", Queue: "reports"}}
			if err := scheduler.SetSchedules(t.Context(), nil, nightly); err != nil {
				t.Fatal(err)
			}
			for _, args := range []string{"queues pause emails reports", "kinds pause mail build", "queues limit reports --running 1"} {
				var out, said bytes.Buffer
				a := &cli.App{Out: &out, Err: &said, Getenv: clitest.Env(database)}
				if code := run(t.Context(), a, strings.Fields(args)); code != cli.ExitDone || strings.Contains(said.String(), "no ") {
					t.Errorf("%s: exit code %d, %s", args, code, &said)
				}
			}
		})
	}
}
