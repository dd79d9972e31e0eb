package telemetry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// gauged is a queue whose readings the test sets.
type gauged struct {
	queue.Queue
	counts   []queue.StatusCount
	backlogs []driver.Backlog
	err      error
	hangs    bool
}

var _ driver.Inspector = (*gauged)(nil)

func (g *gauged) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	return g.counts, g.wait(ctx)
}

func (g *gauged) Jobs(context.Context, queue.Filter) ([]queue.Record, int64, error) {
	return nil, 0, nil
}

func (g *gauged) Tally(context.Context, queue.Selection) (c []queue.StatusCount, err error) { return }

func (g *gauged) Job(context.Context, int64) (r queue.Record, ok bool, err error) { return }

func (g *gauged) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	return g.backlogs, g.wait(ctx)
}

func (g *gauged) wait(ctx context.Context) error {
	if g.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return g.err
}

const (
	depth = "errand.queue.depth"
	age   = "errand.queue.oldest_due.age"
)

func (r *rig) observe(q queue.Queue) (stop func()) {
	r.Helper()
	stop, err := r.Observe(q)
	if err != nil {
		r.Fatal(err)
	}
	return stop
}

func TestObserve(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	g := &gauged{Queue: r.memory}
	stop := r.observe(r.Queue(g)) // behind the wrapper, too

	r.wantMetric(depth)
	r.wantMetric(age)

	g.counts = []queue.StatusCount{{Queue: "a", Status: queue.StatusPending, Jobs: 3}, {Queue: "b", Status: queue.StatusFailed, Jobs: 1}}
	g.backlogs = []driver.Backlog{{Queue: "a", Age: 1500 * time.Millisecond}}
	r.wantMetric(depth, "pending a 3", "running a 0", "completed a 0", "dead a 0",
		"pending b 0", "running b 0", "completed b 0", "dead b 0", "failed b 1")
	r.wantMetric(age, "a 1.5", "b 0")

	g.counts, g.backlogs = nil, nil // what has been seen once goes to zero, not away
	r.wantMetric(depth, "pending a 0", "running a 0", "completed a 0", "dead a 0",
		"pending b 0", "running b 0", "completed b 0", "dead b 0", "failed b 0")
	r.wantMetric(age, "a 0", "b 0")

	stop()
	r.wantMetric(depth)
	r.wantMetric(age)
}

// A backend has the gauges that it can fill.
func TestObserveWhatThereIs(t *testing.T) {
	counts := []queue.StatusCount{{Queue: "a", Status: queue.StatusDead, Jobs: 2}}
	backlogs := []driver.Backlog{{Queue: "a", Age: time.Second}}
	t.Run("an Inspector", func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		defer r.observe(&gauged{Queue: plain(r.memory), counts: counts, backlogs: backlogs})()
		r.wantMetric(depth, "pending a 0", "running a 0", "completed a 0", "dead a 2")
		r.wantMetric(age, "a 1")
	})
	t.Run("none", func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		defer r.observe(plain(r.memory))()
		r.wantMetric(depth)
		r.wantMetric(age)
	})
}

// plain hides all that q can do beyond the four methods.
func plain(q queue.Queue) queue.Queue { return struct{ queue.Queue }{q} }

// What cannot be read is missing, and the error is reported.
func TestObserveFails(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	g := &gauged{Queue: plain(r.memory), err: errDown}
	defer r.observe(g)()
	var rm metricdata.ResourceMetrics
	err := r.metrics.Collect(t.Context(), &rm)
	if !errors.Is(err, errDown) || !strings.Contains(err.Error(), "telemetry: observe: ") {
		t.Errorf("error: got %v, want %v, of telemetry: observe", err, errDown)
	}
	g.err = nil
	r.wantMetric(depth)
}

// A database that does not answer does not hold up the collection for long.
func TestObserveHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		g := &gauged{Queue: plain(r.memory), hangs: true}
		defer r.observe(g)()
		began := time.Now()
		var rm metricdata.ResourceMetrics
		err := r.metrics.Collect(t.Context(), &rm)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("collecting: got %v after %v, want a deadline after 5s", err, took)
		}
		g.hangs = false
	})
}

func TestBadConfiguration(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	_, err := r.Observe(nil)
	if bad := (*queue.InvalidError)(nil); !errors.As(err, &bad) {
		t.Errorf("Observe(nil): got %v, want an InvalidError", err)
	}
	for name, call := range map[string]func(){
		"Queue: q is nil":       func() { r.Queue(nil) },
		"Enqueuer: next is nil": func() { r.Enqueuer(nil) },
		"Handler: next is nil":  func() { r.Handler(nil) },
	} {
		func() {
			defer func() {
				if got := recover(); got != "telemetry: "+name {
					t.Errorf("panic: got %v, want telemetry: %s", got, name)
				}
			}()
			call()
		}()
	}
}

// The zero Options are the globals.
func TestGlobals(t *testing.T) {
	r := newRig(t, telemetry.Options{})
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(r.provider)
	defer otel.SetTracerProvider(before)
	tel, err := telemetry.New(telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := tel.Enqueuer(r.memory).Enqueue(t.Context(), nil, newTask()); err != nil {
		t.Fatal(err)
	}
	r.wantNames("enqueue default")
}
