package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// observeFleet observes the workers and the statistics of the memory queue, behind the wrapper.
func (r *rig) observeFleet() (stopWorkers, stopStats func()) {
	r.Helper()
	stopWorkers, err := r.ObserveWorkers(r.queue)
	if err != nil {
		r.Fatal(err)
	}
	stopStats, err = r.ObserveStats(r.queue)
	if err != nil {
		r.Fatal(err)
	}
	return stopWorkers, stopStats
}

// report reports a worker that has just claimed, with statistics.
func (r *rig) report(info driver.WorkerInfo, stats ...driver.MinuteStats) {
	r.Helper()
	r.reportOf(driver.WorkerReport{WorkerInfo: info, Age: time.Minute, ClaimAge: 1, Stats: stats})
}

func (r *rig) reportOf(report driver.WorkerReport) {
	r.Helper()
	if err := r.memory.ReportWorkers(r.Context(), report); err != nil {
		r.Fatal(err)
	}
}

// runs are done and failed runs that all took as long, and had waited for twice as long.
func runs(done, failed int64, took time.Duration) queue.Stats {
	s := queue.Stats{Done: done, Failed: failed, Ran: took, Waited: 2 * took}
	for s.RunTimes.Quantile(0) < took/2 {
		s.RunTimes = append(make(queue.Histogram, len(s.RunTimes)), done+failed)
	}
	s.WaitTimes = append(make(queue.Histogram, len(s.RunTimes)), done+failed)
	return s
}

func TestObserveWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		stop, _ := r.observeFleet()
		r.wantMetric("errand.fleet.size", "live 0", "draining 0", "vanished 0")
		r.wantMetric("errand.slot.limit")

		r.report(driver.WorkerInfo{Name: "old", Queues: []string{"mail"}, Concurrency: 50, Busy: 50})
		time.Sleep(driver.VanishedAfter + time.Second)
		r.report(driver.WorkerInfo{Name: "a", Queues: []string{"mail", "bulk"}, Concurrency: 10, Busy: 4})
		r.reportOf(driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "b", Queues: []string{"mail"}, Concurrency: 20, Busy: 1}, Age: time.Hour, ClaimAge: 7 * time.Second})
		r.reportOf(driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "c", Queues: []string{"mail"}, Concurrency: 40, Busy: 3}, DrainAge: time.Second})
		r.reportOf(driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "new", Queues: []string{"rare"}, Concurrency: 1}, Age: 30 * time.Second})
		time.Sleep(time.Second)
		r.wantMetric("errand.fleet.size", "live 3", "draining 1", "vanished 1")
		r.wantMetric("errand.slot.limit", "mail 30", "bulk 10", "rare 1")
		r.wantMetric("errand.slot.usage", "mail 5", "bulk 4", "rare 0")
		r.wantMetric("errand.queue.oldest_claim.age", "mail 8", "bulk 1.000000001", "rare 31")

		for _, name := range []string{"a", "b", "new"} {
			r.reportOf(driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: name}, Stopped: true})
		}
		r.wantMetric("errand.fleet.size", "live 0", "draining 1", "vanished 1")
		r.wantMetric("errand.slot.limit", "mail 0", "bulk 0", "rare 0")
		r.wantMetric("errand.slot.usage", "mail 0", "bulk 0", "rare 0")
		r.wantMetric("errand.queue.oldest_claim.age") // there is no worker whose claim could be old

		stop()
		r.wantMetric("errand.fleet.size")
	})
}

func TestObserveStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		_, stop := r.observeFleet()
		time.Sleep(30*time.Minute + 20*time.Second)
		minute := func(kind string, ago time.Duration, s queue.Stats) driver.MinuteStats {
			return driver.MinuteStats{Queue: "mail", Kind: kind, Age: ago + 20*time.Second, Stats: s}
		}
		r.report(driver.WorkerInfo{Name: "w", Queues: []string{"mail"}, Concurrency: 1},
			minute("a", 0, runs(1000, 0, time.Second)), // the minute is not over
			minute("a", time.Minute, runs(90, 8, time.Second)),
			minute("a", 5*time.Minute, queue.Stats{Done: 1, Dead: 2, Lost: 3}),
			minute("a", 6*time.Minute, runs(1000, 0, time.Second)),
			minute("b", 6*time.Minute, runs(1000, 0, time.Second)))
		r.wantMetric("errand.recent.outcomes", "a done mail 91", "a retry mail 8", "a dead mail 2", "a lost mail 3")
		if got := r.metric("errand.recent.process.duration"); len(got) != 3 || !strings.HasPrefix(got[0], "a 0.5 mail 0.7") || !strings.HasPrefix(got[2], "a 0.99 mail 1.0") {
			t.Errorf("run times: got %q, want quantiles within 512 ms and 1024 ms", got)
		}
		if got := r.metric("errand.recent.latency"); len(got) != 3 || !strings.HasPrefix(got[0], "a 0.5 mail 1.5") {
			t.Errorf("waits: got %q, want quantiles within 1024 ms and 2048 ms", got)
		}
		stop()
		r.wantMetric("errand.recent.outcomes")
	})
}

// Many kinds are not told apart: the busiest ones are, and no run is forgotten.
func TestObserveStatsOfManyKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		r.observeFleet()
		time.Sleep(10 * time.Minute)
		var all []driver.MinuteStats
		for i := range 900 {
			all = append(all, driver.MinuteStats{Queue: "mail", Kind: fmt.Sprintf("k%03d", i), Age: time.Minute, Stats: queue.Stats{Done: int64(i + 1)}})
		}
		all = append(all, driver.MinuteStats{Queue: driver.OtherStats, Kind: driver.OtherStats, Age: time.Minute, Stats: queue.Stats{Done: 7}})
		r.report(driver.WorkerInfo{Name: "w", Queues: []string{"mail"}, Concurrency: 1}, all...)
		got := r.metric("errand.recent.outcomes")
		const others = 500 * 501 / 2 // all but the 400 busiest
		if len(got) != 401*4 || !slices.Contains(got, "k899 done mail 900") || !slices.Contains(got, fmt.Sprintf("(other) done (other) %d", others+7)) {
			t.Errorf("%d series: %.300q", len(got), got)
		}
	})
}

// TestObserveFleetFails: what cannot be read is missing, and the error is reported.
func TestObserveFleetFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		q := &unreadable{Queue: r.memory}
		for _, observe := range []func(queue.Queue) (func(), error){r.ObserveWorkers, r.ObserveStats} {
			if _, err := observe(q); err != nil {
				t.Fatal(err)
			}
		}
		var rm metricdata.ResourceMetrics
		err := r.metrics.Collect(t.Context(), &rm)
		if !errors.Is(err, errDown) || !strings.Contains(err.Error(), "telemetry: observe workers: ") || !strings.Contains(err.Error(), "telemetry: observe statistics: ") {
			t.Errorf("error: got %v, want %v of both", err, errDown)
		}
		q.hangs = true
		began := time.Now()
		err = r.metrics.Collect(t.Context(), &rm)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
			t.Errorf("collecting: got %v after %v, want a deadline after 5s each", err, took)
		}
		q.works = true
	})
}

func TestObserveWithoutFleet(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	for field, observe := range map[string]func(queue.Queue) (func(), error){"ObserveWorkers.q": r.ObserveWorkers, "ObserveStats.q": r.ObserveStats} {
		for _, q := range []queue.Queue{nil, plain(r.memory)} {
			_, err := observe(q)
			if bad := (*queue.InvalidError)(nil); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s of %T: got %v, want an InvalidError", field, q, err)
			}
		}
	}
}

// unreadable is a queue whose workers and statistics cannot be read, unless works is true.
type unreadable struct {
	*queuetest.Queue
	hangs, works bool
}

func (u *unreadable) fail(ctx context.Context) error {
	switch {
	case u.works:
		return nil
	case u.hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return errDown
}

func (u *unreadable) Workers(ctx context.Context) ([]driver.WorkerRecord, error) {
	return nil, u.fail(ctx)
}

func (u *unreadable) Stats(ctx context.Context, _ queue.StatsFilter) ([]queue.StatsRecord, error) {
	return nil, u.fail(ctx)
}
