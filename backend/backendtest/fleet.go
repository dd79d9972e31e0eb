package backendtest

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var fleetCases = []testCase{
	{"reports come back", hasFleet, testReports},
	{"a report takes the place of the one before", hasFleet, testReportAgain},
	{"a stopped worker is not listed", hasFleet, testReportStopped},
	{"several reports in one call", hasFleet, testReportSeveral},
	{"bad reports", hasFleet, testReportBad},
	{"reports at once", hasFleet, testReportsAtOnce},
	{"several reports at once", hasFleet, testReportSeveralAtOnce},
	{"vanished workers", hasFleet | canRewind | hasReclaimer, testVanished},
	{"runs of workers", hasFleet, testRuns},
	{"bad runs", hasFleet, testRunsBad},
	{"a worker", hasFleet | isFull, testFleetWorker},
}

func fleet(h Harness) driver.Fleet {
	f, _ := driver.As[driver.Fleet](h.Queue)
	return f
}

// reportOf returns a report with a value in each field.
func reportOf(name string) driver.WorkerReport {
	return driver.WorkerReport{
		WorkerInfo: driver.WorkerInfo{
			Name: name, Host: "höst \"a\\b\"", PID: math.MaxInt32, Version: "v1.2.3", Queues: []string{"q", `{"b,\`}, Kinds: []string{"k", "NULL"},
			Concurrency: 10, Busy: 3, Waiting: 4, Lease: 30*time.Second + 1, Grace: time.Minute, Listens: true, Poll: 5 * time.Second,
			ClaimError: "boom\n'", RefusedCount: 12, Slots: []driver.QueueSlots{{Queue: `{"b,\`, Slots: 5, Busy: 3}, {Queue: "q", Slots: 1}},
			Refused: []driver.RefusedOutcome{{ID: math.MaxInt64, Error: "böom\n'", Waited: time.Minute + 1}, {ID: 1, Error: "check", Waited: 1}},
		},
		Age: time.Hour, ClaimAge: time.Minute, DrainAge: time.Second,
	}
}

// stoppedOf returns the report of a worker that has stopped.
func stoppedOf(name string) driver.WorkerReport {
	return driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: name}, Stopped: true}
}

func report(t *testing.T, h Harness, reports ...driver.WorkerReport) {
	t.Helper()
	if err := fleet(h).ReportWorkers(t.Context(), reports...); err != nil {
		t.Fatalf("ReportWorkers(%+v): %v", reports, err)
	}
}

// workers lists the fleet and checks that it has exactly these names.
func workers(t *testing.T, h Harness, when string, names ...string) []driver.WorkerRecord {
	t.Helper()
	all, err := fleet(h).Workers(t.Context())
	var got []string
	for _, w := range all {
		got = append(got, w.Name)
	}
	if err != nil || !slices.Equal(got, names) {
		t.Fatalf("Workers %s: got %q, error %v; want %q", when, got, err, names)
	}
	return all
}

// wantReported checks that a record says what was reported just now.
func wantReported(t *testing.T, got driver.WorkerRecord, r driver.WorkerReport) {
	t.Helper()
	if !reflect.DeepEqual(got.WorkerInfo, r.WorkerInfo) {
		t.Errorf("Workers: got  %+v\nwant %+v", got.WorkerInfo, r.WorkerInfo)
	}
	for name, c := range map[string]struct {
		at  time.Time
		age time.Duration
	}{"StartedAt": {got.StartedAt, r.Age}, "ClaimedAt": {got.ClaimedAt, r.ClaimAge}, "DrainingAt": {got.DrainingAt, r.DrainAge}} {
		if c.age == 0 && name != "StartedAt" {
			if !c.at.IsZero() {
				t.Errorf("%s of %s: got %v, want zero", name, r.Name, c.at)
			}
		} else if d := got.SeenAt.Sub(c.at) - c.age; d.Abs() > time.Millisecond {
			t.Errorf("%s of %s: got %v, which is %v before SeenAt; want %v", name, r.Name, c.at, got.SeenAt.Sub(c.at), c.age)
		}
	}
	if ago := time.Since(got.SeenAt); ago.Abs() > patience || got.Silent < 0 || got.Silent > patience || got.Vanished {
		t.Errorf("%s: seen at %v, silent for %v, vanished %v; want seen just now", r.Name, got.SeenAt, got.Silent, got.Vanished)
	}
}

func testReports(t *testing.T, h Harness) {
	workers(t, h, "at first")
	least := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "B", Queues: []string{"q"}, Lease: time.Second}}
	full := reportOf("a")
	report(t, h, full)
	report(t, h, least)
	all := workers(t, h, "after two reports", "B", "a")
	wantReported(t, all[0], least)
	wantReported(t, all[1], full)
}

func testReportAgain(t *testing.T, h Harness) {
	r := reportOf("w")
	report(t, h, r)
	r.Kinds, r.Busy, r.ClaimError, r.DrainAge = nil, 0, "", 0
	r.Refused, r.RefusedCount = nil, 0
	r.Queues, r.ClaimAge, r.Age, r.Listens = []string{"other"}, time.Nanosecond, 2*time.Hour, false
	report(t, h, r)
	wantReported(t, workers(t, h, "after the second report", "w")[0], r)
}

func testReportStopped(t *testing.T, h Harness) {
	report(t, h, reportOf("v"))
	report(t, h, reportOf("w"))
	report(t, h, stoppedOf("w"))
	report(t, h, stoppedOf("w"))
	workers(t, h, "after one has stopped", "v")
	report(t, h, reportOf("w"))
	workers(t, h, "after it has started again", "v", "w")
}

// testReportSeveral: one call records several reports. Of those of one worker the last one counts.
func testReportSeveral(t *testing.T, h Harness) {
	report(t, h)
	workers(t, h, "after no report")
	report(t, h, reportOf("old"), reportOf("again"), reportOf("left"))
	again, early := reportOf("again"), reportOf("started")
	again.Busy, again.ClaimAge, again.DrainAge = 7, 0, 0
	early.Busy = 1
	report(t, h, stoppedOf("never"), reportOf("stopped"), stoppedOf("old"), reportOf("new"), stoppedOf("started"),
		reportOf("again"), early, stoppedOf("stopped"), again, stoppedOf("old"))
	all := workers(t, h, "after several reports", "again", "left", "new", "started")
	for i, want := range []driver.WorkerReport{again, reportOf("left"), reportOf("new"), early} {
		wantReported(t, all[i], want)
	}
	report(t, h, stoppedOf("new"), stoppedOf("again"))
	workers(t, h, "after two have stopped", "left", "started")
}

// testReportSeveralAtOnce: calls with the same workers, in different orders, do not deadlock.
func testReportSeveralAtOnce(t *testing.T, h Harness) {
	const names, calls = 3, 3
	var reporters sync.WaitGroup
	for i := range 6 {
		reporters.Go(func() {
			for n := range calls {
				var all []driver.WorkerReport
				for k := range names {
					r := reportOf(fmt.Sprint("w", (i+k*(i%2+1))%names))
					r.Stopped = n < calls-1 && k == 0
					all = append(all, r)
				}
				if err := fleet(h).ReportWorkers(t.Context(), all...); err != nil {
					t.Errorf("ReportWorkers: %v", err)
				}
			}
		})
	}
	reporters.Wait()
	report(t, h, reportOf("w1"), stoppedOf("w0"), reportOf("w2"))
	workers(t, h, "after all reports", "w1", "w2")
}

func testReportBad(t *testing.T, h Harness) {
	for field, bad := range map[string]func(r *driver.WorkerReport){
		"Name":              func(r *driver.WorkerReport) { r.Name = "" },
		"Queues":            func(r *driver.WorkerReport) { r.Queues = []string{"q", "ä"} },
		"Kinds":             func(r *driver.WorkerReport) { r.Kinds = []string{"k", ""} },
		"Host":              func(r *driver.WorkerReport) { r.Host = "\x00" },
		"Version":           func(r *driver.WorkerReport) { r.Version = "\xff" },
		"ClaimError":        func(r *driver.WorkerReport) { r.ClaimError = "\x00" },
		"Refused[1].Error":  func(r *driver.WorkerReport) { r.Refused[1].Error = "\x00" },
		"Refused[0].Waited": func(r *driver.WorkerReport) { r.Refused[0].Waited = -1 },
		"Refused":           func(r *driver.WorkerReport) { r.Refused = make([]driver.RefusedOutcome, driver.MaxRefused+1) },
		"RefusedCount":      func(r *driver.WorkerReport) { r.RefusedCount = -1 },
		"Slots[1].Queue":    func(r *driver.WorkerReport) { r.Slots[1].Queue = "" },
		"Slots[0].Slots":    func(r *driver.WorkerReport) { r.Slots[0].Slots = -1 },
		"Slots[0].Busy":     func(r *driver.WorkerReport) { r.Slots[0].Busy = -1 },
		"PID":               func(r *driver.WorkerReport) { r.PID = -1 },
		"Concurrency":       func(r *driver.WorkerReport) { r.Concurrency = -1 },
		"Busy":              func(r *driver.WorkerReport) { r.Busy = -1 },
		"Waiting":           func(r *driver.WorkerReport) { r.Waiting = -1 },
		"Lease":             func(r *driver.WorkerReport) { r.Lease = -1 },
		"Grace":             func(r *driver.WorkerReport) { r.Grace = math.MaxInt64 },
		"Poll":              func(r *driver.WorkerReport) { r.Poll = -1 },
		"Age":               func(r *driver.WorkerReport) { r.Age = math.MaxInt64 },
		"ClaimAge":          func(r *driver.WorkerReport) { r.ClaimAge = -1 },
		"DrainAge":          func(r *driver.WorkerReport) { r.DrainAge = math.MinInt64 },
	} {
		r := reportOf("w")
		bad(&r)
		wantInvalid(t, "ReportWorkers", fleet(h).ReportWorkers(t.Context(), r), field)
	}
	crowd, most := reportOf("w"), int64(math.MaxInt32)
	crowd.Concurrency = int(most + 1) // below 0 where an int has 32 bits
	wantInvalid(t, "ReportWorkers", fleet(h).ReportWorkers(t.Context(), crowd), "Concurrency")
	wantInvalid(t, "ReportWorkers", fleet(h).ReportWorkers(t.Context(), driver.WorkerReport{Stopped: true}), "Name")
	wantInvalid(t, "ReportWorkers", fleet(h).ReportWorkers(t.Context(), reportOf("w"), crowd), "Concurrency")
	wantCanceled(t, "ReportWorkers", fleet(h).ReportWorkers(cancelled(t), reportOf("w")))
	_, err := fleet(h).Workers(cancelled(t))
	wantCanceled(t, "Workers", err)
	workers(t, h, "after bad reports")
}

func testReportsAtOnce(t *testing.T, h Harness) {
	var reporters sync.WaitGroup
	for i := range 8 {
		reporters.Go(func() {
			for n := range 10 {
				r := reportOf(fmt.Sprint("w", i%3))
				r.Busy, r.Stopped = n, n == 4
				if err := fleet(h).ReportWorkers(t.Context(), r); err != nil {
					t.Errorf("ReportWorkers: %v", err)
				}
			}
		})
	}
	reporters.Wait()
	for _, w := range workers(t, h, "after all reports", "w0", "w1", "w2") {
		if w.Busy != 9 {
			t.Errorf("%s: got %d busy, want 9, of the last report", w.Name, w.Busy)
		}
	}
}

func testVanished(t *testing.T, h Harness) {
	report(t, h, reportOf("old"))
	h.Rewind(t, driver.ForgottenAfter-driver.VanishedAfter)
	report(t, h, reportOf("silent"))
	h.Rewind(t, driver.VanishedAfter-driver.ReportInterval)
	for _, silentVanished := range []bool{false, true} {
		all := workers(t, h, "with one that is silent", "old", "silent")
		if !all[0].Vanished || all[1].Vanished != silentVanished {
			t.Errorf("vanished: got %v and %v, want true and %v", all[0].Vanished, all[1].Vanished, silentVanished)
		}
		h.Rewind(t, driver.ReportInterval)
		if silentVanished {
			prune(t, h)
		}
		h.Rewind(t, time.Second)
	}
	workers(t, h, "after Prune", "silent")
	report(t, h, reportOf("silent"))
	wantReported(t, workers(t, h, "after another report", "silent")[0], reportOf("silent"))
}

func testRuns(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(7, nil)...)
	hold := func(worker string, n int) []*queue.Job {
		req := request(n)
		req.Worker = worker
		return claim(t, h, req)
	}
	b, a, more := hold("b", 2), hold("A", 3), hold("b", 1)
	want := func(when string, most int, jobs []*queue.Job, names ...string) {
		t.Helper()
		runs, err := fleet(h).Runs(t.Context(), most, names...)
		if err != nil || len(runs) != len(jobs) {
			t.Fatalf("Runs %s: got %+v, error %v; want jobs %v", when, runs, err, ids(jobs))
		}
		for i, r := range runs {
			j := jobs[i]
			if r.Worker != j.Worker || r.ID != j.ID || r.Queue != j.Queue || r.Kind != j.Kind || r.Attempt != j.Attempt ||
				time.Since(r.Since).Abs() > patience || r.Took < 0 || r.Took > patience {
				t.Errorf("Runs %s: got %+v, want job %+v", when, r, j)
			}
		}
	}
	want("of all", 10, slices.Concat(a, b, more))
	want("of one", 10, slices.Concat(b, more), "b")
	want("of two of each", 2, slices.Concat(a[:2], b))
	want("of one that holds none", 10, nil, "none", "{", "ä")
	want("of several", 1, slices.Concat(a[:1], b[:1]), "b", "none", "A", "b")
	before := a[0]
	if _, _, err := h.Queue.Extend(t.Context(), longLease, before); err != nil {
		t.Fatal(err)
	}
	want("after a heartbeat", 10, a, "A")
	settle(t, h, outcomes(queue.Done, a...)...)
	want("after some have ended", 10, slices.Concat(b, more))
	settle(t, h, outcomes(queue.Release, b[0])...)
	again := hold("b", 1)
	want("of a job that was released", 10, slices.Concat(b[1:], more, again), "b")
}

func testRunsBad(t *testing.T, h Harness) {
	for _, most := range []int{0, -1, driver.MaxRuns + 1} {
		_, err := fleet(h).Runs(t.Context(), most)
		wantInvalid(t, "Runs", err, "most")
	}
	_, err := fleet(h).Runs(t.Context(), 1, "w", "\x00")
	wantInvalid(t, "Runs", err, "workers[1]")
	_, err = fleet(h).Runs(cancelled(t), 1)
	wantCanceled(t, "Runs", err)
}

// testFleetWorker: a worker is listed while it runs, with what it does, and no longer when it has
// stopped.
func testFleetWorker(t *testing.T, h Harness) {
	started, finish := make(chan struct{}), make(chan struct{})
	mux := queue.NewMux()
	mux.Handle("k", queue.HandlerFunc(func(context.Context, *queue.Job) error {
		close(started)
		<-finish
		return nil
	}))
	j := newJob()
	enqueue(t, h, j)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log strings.Builder
	done := make(chan error, 1)
	go func() {
		done <- engine.Worker{Backend: h.Queue, Handler: mux, Queues: []string{"q"}, Name: "w", Concurrency: 3,
			Logger: slog.New(slog.NewTextHandler(&log, nil))}.Run(ctx)
	}()
	<-started
	var got driver.WorkerRecord
	find := func(what string, ok func() bool) {
		t.Helper()
		poll(t, what, func() bool {
			all, err := fleet(h).Workers(t.Context())
			if err != nil {
				t.Fatalf("Workers: %v", err)
			}
			got = driver.WorkerRecord{}
			i := slices.IndexFunc(all, func(w driver.WorkerRecord) bool { return w.Name == "w" })
			if i >= 0 && len(all) <= 1+h.OwnWorkers {
				got = all[i]
			}
			return ok()
		})
	}
	find("the worker's report", func() bool { return got.Name == "w" })
	if got.Busy != 1 || got.Waiting != 0 || got.Concurrency != 3 || !slices.Equal(got.Kinds, []string{"k"}) || !slices.Equal(got.Queues, []string{"q"}) ||
		got.PID == 0 || got.Lease != 30*time.Second || got.ClaimedAt.IsZero() || !got.DrainingAt.IsZero() || got.ClaimError != "" || got.Listens == h.Polls {
		t.Errorf("a worker that runs a job: got %+v", got)
	}
	runs, err := fleet(h).Runs(t.Context(), 10, "w")
	if err != nil || len(runs) != 1 || runs[0].ID != j.ID {
		t.Errorf("Runs of a worker: got %+v, error %v; want job %d", runs, err, j.ID)
	}
	stop()
	find("that it drains", func() bool { return !got.DrainingAt.IsZero() })
	close(finish)
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	workers(t, h, "after Run has returned")
	if strings.Contains(log.String(), "report") {
		t.Errorf("the log tells of reports:\n%s", &log)
	}
}
