package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue/driver"
)

// reporters are clients that report workers.
type reporters struct {
	*testing.T
	h       *gateway.Handler
	running sync.WaitGroup
}

// report sends a report in a goroutine of its own, and checks the answer.
func (r *reporters) report(in wire.ReportRequest, check func(w *httptest.ResponseRecorder, took time.Duration)) {
	r.running.Go(func() {
		begun := time.Now()
		w := send(r.h, "POST", "/v1/report", in)
		check(w, time.Since(begun))
	})
	synctest.Wait()
}

// written returns a check that the report was written within that time.
func (r *reporters) written(within time.Duration) func(*httptest.ResponseRecorder, time.Duration) {
	return func(w *httptest.ResponseRecorder, took time.Duration) {
		if w.Code != http.StatusOK || took > within {
			r.Errorf("report: status %d after %v: %s; want 200 within %v", w.Code, took, w.Body, within)
		}
	}
}

// useUp sends eleven reports, after which the next ones have to wait.
func (r *reporters) useUp() {
	for range 11 {
		r.report(wire.ReportRequest{Name: "first"}, r.written(10*time.Millisecond))
		r.running.Wait()
	}
}

// names returns the names of the workers in the backend.
func names(t *testing.T, fleet driver.Fleet) (names []string) {
	t.Helper()
	all, err := fleet.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		names = append(names, w.Name)
	}
	return names
}

// TestReportsOfFew: the reports of ten workers do not wait. Further ones are written together, a
// second later.
func TestReportsOfFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		r := &reporters{T: t, h: open(t, q, gateway.Options{})}
		defer r.h.Close()
		for range 3 {
			for i := range 10 {
				r.report(wire.ReportRequest{Name: fmt.Sprint("w", i)}, r.written(10*time.Millisecond))
				r.running.Wait()
			}
			time.Sleep(driver.ReportInterval)
		}
		r.useUp()
		before := q.reports.Load()
		for i := range 500 {
			r.report(wire.ReportRequest{Name: fmt.Sprint("v", i)}, r.written(1010*time.Millisecond))
		}
		r.running.Wait()
		if n := q.reports.Load() - before; n != 1 {
			t.Errorf("500 reports in %d calls, want 1", n)
		}
		if n := len(names(t, q)); n != 511 {
			t.Errorf("workers: got %d, want 511", n)
		}
	})
}

// TestReportsStopped: a stop is written at once, with the reports that wait. Of those of one worker
// the last one counts.
func TestReportsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		r := &reporters{T: t, h: open(t, q, gateway.Options{})}
		defer r.h.Close()
		r.useUp()
		before := q.reports.Load()
		for _, in := range []wire.ReportRequest{
			{Name: "first", Stopped: true}, {Name: "v"}, {Name: "w"}, {Name: "w", Stopped: true}, {Name: "x", Stopped: true}, {Name: "x"},
		} {
			r.report(in, r.written(10*time.Millisecond))
		}
		r.running.Wait()
		if got := names(t, q); !slices.Equal(got, []string{"v", "x"}) || q.reports.Load() != before+1 {
			t.Errorf("workers after two stops: got %q after %d calls, want v and x after one", got, q.reports.Load()-before)
		}
	})
}

// TestReportsDrain: a gateway that drains writes the reports that wait, and further ones, at once.
func TestReportsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		r := &reporters{T: t, h: open(t, q, gateway.Options{})}
		defer r.h.Close()
		r.useUp()
		r.report(wire.ReportRequest{Name: "v"}, r.written(10*time.Millisecond))
		r.h.Drain()
		r.running.Wait()
		r.report(wire.ReportRequest{Name: "w"}, r.written(10*time.Millisecond))
		r.running.Wait()
		if got := names(t, q); !slices.Equal(got, []string{"first", "v", "w"}) {
			t.Errorf("workers after Drain: got %q, want first, v and w", got)
		}
	})
}

// TestReportsFail: a failure is told to each client, and logged once.
func TestReportsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		var log strings.Builder
		h, err := gateway.New(q, gateway.Options{Tokens: everything, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		r := &reporters{T: t, h: h}
		defer h.Close()
		r.useUp()
		q.failing.Store(1000)
		for i := range 3 {
			r.report(wire.ReportRequest{Name: fmt.Sprint("v", i)}, func(w *httptest.ResponseRecorder, _ time.Duration) {
				wantError(t, "report that is not written", w, wire.CodeUnavailable, "")
			})
		}
		r.running.Wait()
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "reports=3") {
			t.Errorf("log: got %d records, want one of 3 reports:\n%s", n, log.String())
		}
	})
}

// TestReportsHangUp: the report of a client that hangs up is not written, because its worker may
// stop elsewhere meanwhile. The others are, also if that client came first.
func TestReportsHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		r := &reporters{T: t, h: open(t, q, gateway.Options{})}
		defer r.h.Close()
		r.useUp()
		ctx, hangUp := context.WithCancel(t.Context())
		for _, name := range []string{"a", "c"} {
			r.running.Go(func() { sendIn(ctx, r.h, "POST", "/v1/report", wire.ReportRequest{Name: name}) })
			synctest.Wait()
			r.report(wire.ReportRequest{Name: name + "+"}, r.written(1010*time.Millisecond))
		}
		hangUp()
		r.running.Wait()
		if got := names(t, q); !slices.Equal(got, []string{"a+", "c+", "first"}) {
			t.Errorf("workers: got %q, want a+, c+ and first", got)
		}
	})
}

// refusing is a queue that treats calls with a report of the worker "bad" in its own way.
type refusing struct {
	*counting
	refuse func(ctx context.Context) error
}

func (q *refusing) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	if slices.ContainsFunc(reports, func(r driver.WorkerReport) bool { return r.Name == "bad" }) {
		q.reports.Add(1)
		return q.refuse(ctx)
	}
	return q.counting.ReportWorkers(ctx, reports...)
}

// TestReportsRefused: a report that the database refuses, or on which it hangs, fails alone.
func TestReportsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(ctx context.Context) error
		within time.Duration
	}{
		"error": {func(context.Context) error { return errors.New("row refused") }, 1010 * time.Millisecond},
		"hangs": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &refusing{newCounting(), c.refuse}
				r := &reporters{T: t, h: open(t, q, gateway.Options{})}
				defer r.h.Close()
				r.useUp()
				before := q.reports.Load()
				r.report(wire.ReportRequest{Name: "bad"}, func(w *httptest.ResponseRecorder, _ time.Duration) {
					wantError(t, "report that is refused", w, wire.CodeUnavailable, "")
				})
				for i := range 31 {
					r.report(wire.ReportRequest{Name: fmt.Sprint("v", i)}, r.written(c.within))
				}
				r.running.Wait()
				if n := q.reports.Load() - before; n != 1+2*5 {
					t.Errorf("32 reports, one of them refused, in %d calls, want 11: each that fails in two halves", n)
				}
				r.report(wire.ReportRequest{Name: "next"}, r.written(1010*time.Millisecond))
				r.running.Wait()
				if n := len(names(t, q)); n != 33 {
					t.Errorf("workers: got %d, want 33", n)
				}
			})
		})
	}
}

// TestReportsPanic: a backend that panics leaves no client waiting, and further reports are
// written.
func TestReportsPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &refusing{newCounting(), func(context.Context) error { panic("bad") }}
		r := &reporters{T: t, h: open(t, q, gateway.Options{})}
		defer r.h.Close()
		r.useUp()
		r.running.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is not the server's to handle")
				}
			}()
			send(r.h, "POST", "/v1/report", wire.ReportRequest{Name: "bad"})
		})
		synctest.Wait()
		r.report(wire.ReportRequest{Name: "v"}, func(w *httptest.ResponseRecorder, _ time.Duration) {
			wantError(t, "report beside one that panics", w, wire.CodeUnavailable, "")
		})
		r.running.Wait()
		r.report(wire.ReportRequest{Name: "v"}, r.written(1010*time.Millisecond))
		r.running.Wait()
	})
}

// TestReportsInOrder: a stop is written after the last report of its worker, also if that is under
// way for long.
func TestReportsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &refusing{counting: newCounting()}
		q.refuse = func(ctx context.Context) error {
			time.Sleep(300 * time.Millisecond)
			return q.counting.ReportWorkers(ctx, driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "bad"}})
		}
		r := &reporters{T: t, h: open(t, q, gateway.Options{})}
		defer r.h.Close()
		r.report(wire.ReportRequest{Name: "bad"}, r.written(310*time.Millisecond))
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		q.refuse = func(ctx context.Context) error {
			return q.counting.ReportWorkers(ctx, driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "bad"}, Stopped: true})
		}
		r.report(wire.ReportRequest{Name: "bad", Stopped: true}, r.written(290*time.Millisecond))
		r.running.Wait()
		if got := names(t, q); len(got) != 0 {
			t.Errorf("workers after a stop: got %q, want none", got)
		}
	})
}

// reportLog is a queue that keeps how many reports each call has.
type reportLog struct {
	*memory.Queue
	calls []int
}

func (q *reportLog) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	q.calls = append(q.calls, len(reports))
	return q.Queue.ReportWorkers(ctx, reports...)
}

// TestReportsSize: a call writes at most a thousand reports, and 4 MiB.
func TestReportsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &reportLog{Queue: memory.New(memory.Options{})}
		r := &reporters{T: t, h: open(t, q, gateway.Options{})}
		defer r.h.Close()
		r.useUp()
		q.calls = nil
		for i := range 1500 {
			r.report(wire.ReportRequest{Name: fmt.Sprint("w", i)}, r.written(2*time.Second))
		}
		long := strings.Repeat("x", 3<<20)
		for i := range 3 {
			r.report(wire.ReportRequest{Name: fmt.Sprint("v", i), Host: long}, r.written(3*time.Second))
		}
		r.running.Wait()
		slices.Sort(q.calls)
		if want := []int{1, 1, 501, 1000}; !slices.Equal(q.calls, want) {
			t.Errorf("reports in each call: got %v, want %v", q.calls, want)
		}
	})
}
