package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

func statsOf(t *testing.T, q driver.Statistician, f queue.StatsFilter) []queue.StatsRecord {
	t.Helper()
	all, err := q.Stats(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestStats: a worker counts runs in the minutes in which they end, with how long they took and how
// long their jobs had waited. Runs that are released do not count.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		w := start(t, engine.Worker{Backend: q, Concurrency: 1, Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			switch {
			case job.Kind == "snoozes":
				return queue.Snooze(time.Hour)
			case job.Attempt == 1:
				time.Sleep(20 * time.Second)
				return queue.RetryAfter(time.Minute, errors.New("boom"))
			}
			return queue.Discard(errors.New("boom"))
		})})
		time.Sleep(5 * time.Second)
		enqueue(t, q, newTask(1), newTask(2), queue.NewKind[task]("snoozes").New(task{}))
		time.Sleep(5 * time.Minute)
		w.stop()
		all := statsOf(t, q, queue.StatsFilter{Step: time.Minute, ByKind: true, Times: true})
		if len(all) != 2 {
			t.Fatalf("got %+v, want two minutes", all)
		}
		first, second := all[0], all[1]
		if first.Failed != 2 || first.Done+first.Dead+first.Lost != 0 || first.Ran != 40*time.Second || first.Waited != 20*time.Second ||
			first.Kind != work.Name || first.Queue != "" {
			t.Errorf("first minute: got %+v", first)
		}
		// The second job is due for its retry after 45 and 65 s, in the second minute.
		if second.At != first.At.Add(time.Minute) || second.Dead != 2 || second.Done+second.Failed+second.Lost != 0 || second.Ran != 0 || second.Waited != 0 {
			t.Errorf("second minute: got %+v, after %v", second, first.At)
		}
		if !slices.Equal(first.WaitTimes, append(append(queue.Histogram{1}, make(queue.Histogram, 14)...), 1)) || first.RunTimes.Quantile(1) < 16*time.Second {
			t.Errorf("histograms of the first minute: got %v and %v", first.RunTimes, first.WaitTimes)
		}
	})
}

// TestStatsWait: what could not be reported is reported later, in its own minute.
func TestStatsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isDown atomic.Bool
		isDown.Store(true)
		q := &reported{Queue: newQueue(t, 100), hook: func(context.Context, driver.WorkerReport) error {
			if isDown.Load() {
				return errDown
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })})
		time.Sleep(3 * time.Minute)
		enqueue(t, q, newTasks(10)...)
		time.Sleep(3*time.Minute + 30*time.Second)
		if all := statsOf(t, q, queue.StatsFilter{}); len(all) != 0 {
			t.Errorf("while reports fail: got %+v", all)
		}
		isDown.Store(false)
		time.Sleep(10 * time.Second)
		all := statsOf(t, q, queue.StatsFilter{Step: time.Minute})
		if len(all) != 2 || all[0].Done != 100 || all[1].Done != 10 || all[1].At.Sub(all[0].At) != 3*time.Minute {
			t.Errorf("after that: got %+v, want 100 jobs, and 10 three minutes later", all)
		}
		w.stop()
		if again := statsOf(t, q, queue.StatsFilter{}); len(again) != 1 || again[0].Done != 110 {
			t.Errorf("at last: got %+v, want 110 jobs", again)
		}
	})
}

// TestStatsManyKinds: however many kinds there are, a report is bounded, and each run counts.
func TestStatsManyKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kinds = 2000
		q := &reported{Queue: queuetest.New(queuetest.Options{})}
		for i := range kinds {
			enqueue(t, q, &queue.Job{Kind: fmt.Sprint("kind", i), Payload: []byte("1")})
		}
		w := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })})
		time.Sleep(5 * time.Second)
		w.stop()
		for _, r := range q.reports() {
			if n := len(r.Stats); n > 501 || r.Check() != nil {
				t.Errorf("a report has the statistics of %d kinds, %v", n, r.Check())
			}
		}
		done, names := 0, 0
		for _, r := range statsOf(t, q, queue.StatsFilter{ByKind: true}) {
			done += int(r.Done)
			names++
		}
		other := statsOf(t, q, queue.StatsFilter{Kind: driver.OtherStats})
		if done != kinds || names > 501 || len(other) != 1 || other[0].Done < kinds-500 {
			t.Errorf("got %d runs of %d kinds, and of others %+v; want %d runs", done, names, other, kinds)
		}
	})
}

// TestHistogram: quantiles are right within a factor of two.
func TestHistogram(t *testing.T) {
	var none queue.Histogram
	if none.Count() != 0 || none.Quantile(0.5) != 0 {
		t.Errorf("an empty histogram: got %d, %v", none.Count(), none.Quantile(0.5))
	}
	h := none.Add(queue.Histogram{50, 0, 0, 0, 0, 0, 40, 0, 0, 0, 10}) // 50 below 1 ms, 40 from 32 ms, 10 from 512 ms
	for q, want := range map[float64]time.Duration{
		-1: 0, 0: 0, 0.25: 500 * time.Microsecond, 0.5: time.Millisecond, 0.7: 48 * time.Millisecond, 0.9: 64 * time.Millisecond,
		0.95: 768 * time.Millisecond, 1: 1024 * time.Millisecond, 2: 1024 * time.Millisecond,
	} {
		if got := h.Quantile(q); got != want {
			t.Errorf("Quantile(%v): got %v, want %v", q, got, want)
		}
	}
	longest := make(queue.Histogram, queue.MaxBuckets)
	longest[queue.MaxBuckets-1] = 1
	if got := longest.Quantile(0.5); got != time.Millisecond<<26 {
		t.Errorf("in the last bucket: got %v", got)
	}
	if h = h.Add(longest).Add(nil); h.Count() != 101 || len(h) != queue.MaxBuckets || none != nil {
		t.Errorf("a sum: got %v", h)
	}
}
