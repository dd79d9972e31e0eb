package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/internal/fleet"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// ReportWorkers implements [driver.Fleet].
func (q *Queue) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	const operation = "report workers"
	if err := cmp.Or(driver.CheckReports(reports...), ctx.Err()); err != nil {
		return failed(operation, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	for _, r := range reports {
		q.addStats(at, r.Stats)
		q.reportWorker(at, r)
	}
	return nil
}

// reportWorker records a report, but for its Stats. The caller holds q.mu.
func (q *Queue) reportWorker(at time.Time, r driver.WorkerReport) {
	if r.Stopped {
		delete(q.workers, r.Name)
		return
	}
	ago := func(age time.Duration) time.Time {
		if age == 0 {
			return time.Time{}
		}
		return at.Add(-age)
	}
	q.workers[r.Name] = driver.WorkerRecord{
		WorkerInfo: cloned(r.WorkerInfo), StartedAt: at.Add(-r.Age), ClaimedAt: ago(r.ClaimAge), DrainingAt: ago(r.DrainAge), SeenAt: at,
	}
}

// cloned returns a copy that shares no memory with info.
func cloned(info driver.WorkerInfo) driver.WorkerInfo {
	info.Queues, info.Kinds = slices.Clone(info.Queues), slices.Clone(info.Kinds)
	info.Refused = slices.Clone(info.Refused)
	return info
}

// Workers implements [driver.Fleet].
func (q *Queue) Workers(ctx context.Context) ([]driver.WorkerRecord, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("list workers", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	all := make([]driver.WorkerRecord, 0, len(q.workers))
	for _, w := range q.workers {
		w.WorkerInfo = cloned(w.WorkerInfo)
		w.Silent = at.Sub(w.SeenAt)
		w.Vanished = w.Silent > driver.VanishedAfter
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b driver.WorkerRecord) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Runs implements [driver.Fleet].
func (q *Queue) Runs(ctx context.Context, most int, workers ...string) ([]driver.RunningJob, error) {
	const operation = "list runs"
	if err := cmp.Or(driver.CheckRuns(most, workers), ctx.Err()); err != nil {
		return nil, failed(operation, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	var all []driver.RunningJob
	for _, row := range q.running {
		r := &row.committed
		if r.Status == queue.StatusRunning && (len(workers) == 0 || slices.Contains(workers, r.Worker)) {
			all = append(all, driver.RunningJob{
				Worker: r.Worker, ID: r.ID, Queue: r.Queue, Kind: r.Kind, Attempt: r.Attempt, Since: r.StartedAt, Took: at.Sub(r.StartedAt),
			})
		}
	}
	return fleet.FirstRuns(all, most), nil
}

// pruneWorkers removes the workers that have vanished long ago. The caller holds q.mu.
func (q *Queue) pruneWorkers(at time.Time) {
	for name, w := range q.workers {
		if at.Sub(w.SeenAt) > driver.ForgottenAfter {
			delete(q.workers, name)
		}
	}
}
