package backendtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var statsCases = []testCase{
	{"of several workers add up", hasStats, testStatsAdd},
	{"of several reports in one call", hasStats, testStatsSeveral},
	{"filters", hasStats, testStatsFilter},
	{"of workers that stop", hasStats, testStatsStopped},
	{"at once", hasStats, testStatsAtOnce},
	{"bad ones", hasStats, testStatsBad},
	{"bad filters", hasStats, testStatsBadFilter},
	{"old ones are pruned", hasStats | canRewind | hasReclaimer, testStatsPruned},
	{"of a worker", hasStats | hasInspector, testStatsWorker},
}

func stats(t *testing.T, h Harness, f queue.StatsFilter) []queue.StatsRecord {
	t.Helper()
	s, _ := driver.As[driver.Statistician](h.Queue)
	all, err := s.Stats(t.Context(), f)
	if err != nil {
		t.Fatalf("Stats(%+v): %v", f, err)
	}
	return all
}

// statsOf returns statistics with a number in each field, of a minute that began so long ago.
func statsOf(name, kind string, age time.Duration, n int64) driver.MinuteStats {
	return driver.MinuteStats{Queue: name, Kind: kind, Age: age, Stats: queue.Stats{
		Done: n, Failed: 2 * n, Dead: 3 * n, Lost: 4 * n, Ran: time.Duration(n) * time.Second, Waited: time.Duration(n) * time.Minute,
		RunTimes: queue.Histogram{n, 0, 2 * n}, WaitTimes: queue.Histogram{0, 3 * n},
	}}
}

// reportStats reports statistics of a worker of that name.
func reportStats(t *testing.T, h Harness, worker string, all ...driver.MinuteStats) {
	t.Helper()
	r := reportOf(worker)
	r.Stats = all
	report(t, h, r)
}

// wantStats compares the statistics of a filter, but for At.
func wantStats(t *testing.T, h Harness, f queue.StatsFilter, want ...driver.MinuteStats) (at []time.Time) {
	t.Helper()
	got := stats(t, h, f)
	if len(got) != len(want) {
		t.Fatalf("Stats(%+v): got %+v\nwant %+v", f, got, want)
	}
	for i, w := range want {
		if !f.Times {
			w.RunTimes, w.WaitTimes = nil, nil
		}
		g := got[i]
		if g.Queue != w.Queue || g.Kind != w.Kind || !reflect.DeepEqual(g.Stats, w.Stats) {
			t.Errorf("Stats(%+v), record %d: got %+v\nwant %+v", f, i, g, w)
		}
		at = append(at, g.At)
	}
	return at
}

func testStatsAdd(t *testing.T, h Harness) {
	wantStats(t, h, queue.StatsFilter{})
	reportStats(t, h, "w", statsOf("q", "k", 10*time.Second, 1), statsOf("q", "l", 10*time.Second, 10))
	other := statsOf("q", "k", 10*time.Second, 100)
	other.RunTimes, other.WaitTimes = make(queue.Histogram, queue.MaxBuckets), nil
	other.RunTimes[queue.MaxBuckets-1] = 7
	reportStats(t, h, "v", other)
	reportStats(t, h, "w")
	sum := statsOf("q", "k", 0, 101)
	sum.RunTimes, sum.WaitTimes = slices.Clone(other.RunTimes), queue.Histogram{0, 3}
	sum.RunTimes[0], sum.RunTimes[2] = 1, 2
	at := wantStats(t, h, queue.StatsFilter{ByQueue: true, ByKind: true, Times: true}, sum, statsOf("q", "l", 0, 10))
	for _, at := range at {
		if at.Second() != 0 || at.Nanosecond() != 0 || time.Since(at).Abs() > patience+2*time.Minute {
			t.Errorf("At: got %v, want about this minute", at)
		}
	}
}

// testStatsSeveral: the statistics of all reports of a call count, also those of reports that are
// followed by a later one of the same worker.
func testStatsSeveral(t *testing.T, h Harness) {
	reportStats(t, h, "w", statsOf("q", "k", 0, 1))
	with := func(r driver.WorkerReport, all ...driver.MinuteStats) driver.WorkerReport {
		r.Stats = all
		return r
	}
	report(t, h,
		with(reportOf("v"), statsOf("q", "k", 0, 10), statsOf("q", "l", 0, 100)),
		with(stoppedOf("w"), statsOf("q", "k", time.Millisecond, 1000)),
		with(reportOf("v")),
		with(reportOf("v"), statsOf("p", "k", time.Hour, 10_000), statsOf("q", "k", time.Hour, 100_000)))
	wantStats(t, h, queue.StatsFilter{ByQueue: true, ByKind: true, Times: true},
		statsOf("p", "k", 0, 10_000), statsOf("q", "k", 0, 101_011), statsOf("q", "l", 0, 100))
	workers(t, h, "after several reports with statistics", "v")
}

func testStatsFilter(t *testing.T, h Harness) {
	const hour = time.Hour
	reportStats(t, h, "w", statsOf("q", "k", 0, 1), statsOf("q", "l", 0, 10), statsOf("B", "k", 0, 100),
		statsOf("q", "k", 3*hour, 1000), statsOf("q", "l", 3*hour+time.Minute, 10_000))
	all := statsOf("", "", 0, 11_111)
	first := wantStats(t, h, queue.StatsFilter{Times: true}, all)[0]
	wantStats(t, h, queue.StatsFilter{ByQueue: true}, statsOf("q", "", 0, 11_011), statsOf("B", "", 0, 100))
	wantStats(t, h, queue.StatsFilter{ByQueue: true, ByKind: true, From: first.Add(2 * time.Minute)},
		statsOf("B", "k", 0, 100), statsOf("q", "k", 0, 1), statsOf("q", "l", 0, 10))
	wantStats(t, h, queue.StatsFilter{Queue: "q", Kind: "k", Times: true}, statsOf("", "", 0, 1001))
	wantStats(t, h, queue.StatsFilter{Queue: "none"})
	wantStats(t, h, queue.StatsFilter{Kind: "k", To: first.Add(time.Minute)})
	wantStats(t, h, queue.StatsFilter{To: first.Add(time.Minute)}, statsOf("", "", 0, 10_000))
	wantStats(t, h, queue.StatsFilter{To: first})
	at := wantStats(t, h, queue.StatsFilter{From: first.Add(time.Minute), ByKind: true}, statsOf("", "k", 0, 1101), statsOf("", "l", 0, 10))
	if at[0] != first.Add(time.Minute) || at[1] != at[0].Add(3*hour) {
		t.Errorf("At without a Step: got %v, want the first minute of each", at)
	}
	steps := wantStats(t, h, queue.StatsFilter{Step: time.Minute, Times: true},
		statsOf("", "", 0, 10_000), statsOf("", "", 0, 1000), statsOf("", "", 0, 111))
	if steps[0] != first || steps[1] != first.Add(time.Minute) || steps[2] != steps[1].Add(3*hour) {
		t.Errorf("At of minutes: got %v, want %v, the next minute, and three hours after that", steps, first)
	}
	for _, at := range stats(t, h, queue.StatsFilter{Step: hour}) {
		if at.At.Minute() != 0 || at.At.Second() != 0 {
			t.Errorf("At with a Step of an hour: got %v, want a full hour", at.At)
		}
	}
}

func testStatsStopped(t *testing.T, h Harness) {
	stopped := stoppedOf("w")
	stopped.Stats = []driver.MinuteStats{statsOf("q", "k", 0, 5)}
	report(t, h, stopped)
	report(t, h, stopped)
	wantStats(t, h, queue.StatsFilter{Times: true}, statsOf("", "", 0, 10))
	workers(t, h, "after a worker has stopped that had never reported itself")
}

func testStatsAtOnce(t *testing.T, h Harness) {
	const kinds, workers, reports = 20, 6, 5
	var reporters sync.WaitGroup
	for w := range workers {
		reporters.Go(func() {
			var all []driver.MinuteStats
			for k := range kinds {
				all = append(all, statsOf("q", fmt.Sprint("k", (k*7+w)%kinds), 30*time.Second, 1))
			}
			r := reportOf(fmt.Sprint("w", w))
			r.Stats = all
			for range reports {
				if err := fleet(h).ReportWorkers(t.Context(), r); err != nil {
					t.Errorf("ReportWorkers: %v", err)
				}
			}
		})
	}
	reporters.Wait()
	wantStats(t, h, queue.StatsFilter{Times: true}, statsOf("", "", 0, kinds*workers*reports))
}

func testStatsBad(t *testing.T, h Harness) {
	for field, bad := range map[string]driver.MinuteStats{
		"Stats[1].Queue": statsOf("", "k", 0, 1), "Stats[1].Kind": statsOf("q", "ä", 0, 1), "Stats[1].Age": statsOf("q", "k", -1, 1),
		"Stats[1]": statsOf("q", "k", 0, -1),
	} {
		r := reportOf("w")
		r.Stats = []driver.MinuteStats{statsOf("q", "k", 0, 1), bad}
		wantInvalid(t, "ReportWorkers", fleet(h).ReportWorkers(t.Context(), r), field)
	}
	long := statsOf("q", "k", 0, 1)
	long.WaitTimes = make(queue.Histogram, queue.MaxBuckets+1)
	r := reportOf("w")
	r.Stats = []driver.MinuteStats{long}
	wantInvalid(t, "ReportWorkers", fleet(h).ReportWorkers(t.Context(), r), "Stats[0]")
	r.Stats = make([]driver.MinuteStats, driver.MaxStats+1)
	wantInvalid(t, "ReportWorkers", fleet(h).ReportWorkers(t.Context(), r), "Stats")
	wantStats(t, h, queue.StatsFilter{})
	workers(t, h, "after bad statistics")
}

func testStatsBadFilter(t *testing.T, h Harness) {
	s, _ := driver.As[driver.Statistician](h.Queue)
	for field, f := range map[string]queue.StatsFilter{
		"Queue": {Queue: "\x00"}, "Kind": {Kind: "\xff"}, "Step": {Step: time.Second}, "From": {From: time.Unix(-1, 0)},
		"To": {To: time.Unix(math.MaxInt32*1000, 0)},
	} {
		_, err := s.Stats(t.Context(), f)
		wantInvalid(t, "Stats", err, field)
	}
	_, err := s.Stats(cancelled(t), queue.StatsFilter{})
	wantCanceled(t, "Stats", err)
}

func testStatsPruned(t *testing.T, h Harness) {
	reportStats(t, h, "w", statsOf("q", "k", 0, 1))
	h.Rewind(t, driver.StatsKept)
	reportStats(t, h, "w", statsOf("q", "k", 0, 10))
	h.Rewind(t, 2*time.Minute)
	wantStats(t, h, queue.StatsFilter{Times: true}, statsOf("", "", 0, 11))
	prune(t, h)
	wantStats(t, h, queue.StatsFilter{Times: true}, statsOf("", "", 0, 10))
}

// testStatsWorker: a worker counts what its runs come to, also the ones of its last seconds.
func testStatsWorker(t *testing.T, h Harness) {
	begun := time.Now()
	want := enqueueForStats(t, h)
	runForStats(t, h, want)
	longest := 7 * time.Since(begun) // of all runs and waits together
	all := stats(t, h, queue.StatsFilter{Times: true})
	if len(all) != 1 {
		t.Fatalf("Stats after a worker: got %+v, want one record", all)
	}
	got := all[0].Stats
	if got.Done != want.Done || got.Failed != want.Failed || got.Dead != want.Dead || got.Lost != want.Lost {
		t.Errorf("Stats after a worker: got %+v, want %+v", got, want)
	}
	if got.RunTimes.Count() != 7 || got.WaitTimes.Count() != 7 || got.Ran < 60*time.Millisecond || got.Ran > longest ||
		got.RunTimes.Quantile(0.9) < 16*time.Millisecond || got.Waited > longest {
		t.Errorf("times after a worker: got %+v, want 7 runs, three of which take 20 ms", got)
	}
	if kinds := stats(t, h, queue.StatsFilter{ByKind: true, Kind: "done"}); len(kinds) != 1 || kinds[0].Done != 3 {
		t.Errorf("Stats of a kind: got %+v, want 3 done", kinds)
	}
}

// enqueueForStats enqueues a job for each answer of a handler, and one whose worker crashes if the
// backend reclaims jobs. It returns what their runs come to.
func enqueueForStats(t *testing.T, h Harness) queue.Stats {
	t.Helper()
	for i, answer := range []string{"done", "done", "done", "fails", "dies", "dies", "snoozes", "settles"} {
		j := newJob()
		j.Kind, j.Priority = answer, int32(i)
		enqueue(t, h, j)
	}
	want := queue.Stats{Done: 4, Failed: 1, Dead: 2}
	if can[driver.Reclaimer](h) {
		j := newJob()
		j.Kind, j.MaxAttempts = "crashes", 1
		enqueue(t, h, j)
		req := short(request(1))
		req.Kinds = []string{"crashes"}
		claim(t, h, req)
		want.Dead, want.Lost = 3, 1
	}
	return want
}

// reclaimingLease is the lease of a worker that reclaims after a second.
const reclaimingLease = 4 * time.Second

// runForStats runs a worker until the jobs have ended as want tells, and stops it. A second worker
// reclaims, and runs no jobs: on a busy machine the lease of one that runs some might expire.
func runForStats(t *testing.T, h Harness, want queue.Stats) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var announced atomic.Int64 // a worker has counted a reclaimed job when it announces that it is dead
	done := make(chan error, 2)
	run := func(name string, lease time.Duration) {
		done <- engine.Worker{Backend: h.Queue, Handler: statsHandler(h), Queues: []string{name}, Lease: lease,
			OnDead: func(context.Context, *queue.Job, error) { announced.Add(1) }, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
	}
	go run("q", longLease)
	go run("elsewhere", reclaimingLease)
	poll(t, "the end of all jobs", func() bool {
		counts := map[queue.Status]int64{}
		inspector, _ := driver.As[driver.Inspector](h.Queue)
		all, err := inspector.Counts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			counts[c.Status] = c.Jobs
		}
		return counts[queue.StatusCompleted] == want.Done && counts[queue.StatusDead] == want.Dead &&
			counts[queue.StatusRunning] == 0 && announced.Load() == want.Dead
	})
	stop()
	if err := errors.Join(<-done, <-done); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// statsHandler returns a handler that answers as a job's kind says.
func statsHandler(h Harness) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		switch job.Kind {
		case "fails":
			return queue.RetryAfter(time.Hour, errors.New("boom"))
		case "dies":
			return queue.Discard(errors.New("boom"))
		case "snoozes":
			return queue.Snooze(time.Hour)
		case "settles":
			_, err := h.Queue.Settle(ctx, nil, queue.Outcome{Job: job})
			return errors.Join(queue.ErrSettled, err)
		}
		time.Sleep(20 * time.Millisecond)
		return nil
	})
}
