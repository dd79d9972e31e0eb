package web_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestStats: the overview draws the runs of the last hour, and the page of kinds has their times.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		time.Sleep(30 * time.Minute) // so that minutes of the last hour have begun
		info := driver.WorkerInfo{Name: "w", Queues: []string{"mail"}, Concurrency: 10}
		stats := queue.Stats{Done: 97, Failed: 2, Dead: 1, Ran: 100 * time.Second, Waited: 200 * time.Second}
		stats.RunTimes = append(make(queue.Histogram, 9), 100)
		stats.WaitTimes = append(make(queue.Histogram, 10), 100)
		report := driver.WorkerReport{WorkerInfo: info, Stats: []driver.MinuteStats{
			{Queue: "mail", Kind: "email.welcome", Age: 5 * time.Minute, Stats: stats},
			{Queue: "mail", Kind: "email.welcome", Age: 2 * time.Hour, Stats: queue.Stats{Done: 5000}}}}
		if err := q.ReportWorkers(t.Context(), report); err != nil {
			t.Fatal(err)
		}
		h := newHandler(t, q)
		wantTexts(t, page(h, "/"), []string{"97 done, 2 failed, 1 dead, 0 lost; peak: 100 a minute; a run took 1 s and had waited 2 s on average.",
			`<rect class="done" x="540" y="3" width="8" height="77">`, `<rect class="failed" x="540" y="1" width="8" height="2">`})
		wantTexts(t, page(h, "/kinds"), []string{"email.welcome", `>97</td><td class="number">3</td><td class="number">`, " ms / "})
	})
}

// recorder is a queue that notes from how long ago on statistics are read.
type recorder struct {
	*memory.Queue
	read []time.Duration
}

func (q *recorder) Stats(ctx context.Context, f queue.StatsFilter) ([]queue.StatsRecord, error) {
	q.read = append(q.read, time.Since(f.From))
	return q.Queue.Stats(ctx, f)
}

// TestNewestMinutes: while somebody watches, a chart reads only its newest minutes again. It shows
// what workers report late, and forgets what is older than an hour.
func TestNewestMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &recorder{Queue: memory.New(memory.Options{})}
		time.Sleep(2 * time.Hour)
		report := func(age time.Duration) {
			t.Helper()
			info := driver.WorkerInfo{Name: "w", Queues: []string{"mail"}, Concurrency: 10}
			stats := []driver.MinuteStats{{Queue: "mail", Kind: "k", Age: age, Stats: queue.Stats{Done: 1}}}
			if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: info, Stats: stats}); err != nil {
				t.Fatal(err)
			}
		}
		report(58 * time.Minute)
		report(30 * time.Minute)
		report(0)
		h := newHandler(t, q)
		wantTexts(t, page(h, "/"), []string{"3 done, "})
		report(time.Minute) // late
		time.Sleep(10 * time.Second)
		wantTexts(t, page(h, "/"), []string{"4 done, "})
		time.Sleep(3 * time.Minute)
		report(0)
		wantTexts(t, page(h, "/"), []string{"4 done, "})
		report(20 * time.Minute) // very late
		time.Sleep(10 * time.Minute)
		wantTexts(t, page(h, "/"), []string{"5 done, "})
		if want := []time.Duration{60, 3, 6, 60}; !slices.EqualFunc(q.read, want, func(a, b time.Duration) bool { return a.Truncate(time.Minute) == b*time.Minute }) {
			t.Errorf("read from %v ago on, want minutes %d", q.read, want)
		}
	})
}
