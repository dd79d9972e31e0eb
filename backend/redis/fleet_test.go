package redis_test

import (
	"fmt"
	"testing"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestManyWorkers: workers and what they run come in several pages, and each once.
func TestManyWorkers(t *testing.T) {
	const n = 1200
	b := open(t, redistest.Open(t), redis.Options{Partitions: 2})
	var reports []driver.WorkerReport
	var jobs []*queue.Job
	for i := range n {
		reports = append(reports, driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: fmt.Sprint("w", i)}})
		jobs = append(jobs, &queue.Job{Queue: "q", Kind: "k"})
	}
	if err := b.ReportWorkers(t.Context(), reports...); err != nil {
		t.Fatal(err)
	}
	if err := b.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Claim(t.Context(), request(n)); err != nil {
		t.Fatal(err)
	}
	workers, err := b.Workers(t.Context())
	if err != nil || len(workers) != n {
		t.Errorf("Workers: got %d, error %v; want %d", len(workers), err, n)
	}
	runs, err := b.Runs(t.Context(), driver.MaxRuns)
	if err != nil || len(runs) != driver.MaxRuns || runs[0].ID != jobs[0].ID || runs[driver.MaxRuns-1].ID != jobs[driver.MaxRuns-1].ID {
		t.Errorf("Runs: got %d, error %v; want the first %d", len(runs), err, driver.MaxRuns)
	}
	if runs, err = b.Runs(t.Context(), 3, "none", "w"); err != nil || len(runs) != 3 || runs[0].ID != jobs[0].ID {
		t.Errorf("Runs, three of each: got %+v, error %v; want the first three", runs, err)
	}
}
