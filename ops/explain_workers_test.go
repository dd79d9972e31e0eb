package ops_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// idle is a worker that serves the queues of all cases, and does nothing.
var idle = driver.WorkerInfo{Name: "idle", Queues: []string{queue.DefaultQueue, "q"}}

// workerCases are faults of workers. In them there is no idle worker.
var workerCases = []struct {
	reason string
	also   string // a further reason
	make   func(t *testing.T, q backends) ops.Question
}{
	{"no-worker", "", func(t *testing.T, q backends) ops.Question {
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"worker-unreported", "", func(t *testing.T, q backends) ops.Question { // as with a role that may not report
		enqueue(t, q, queue.Job{})
		claim(t, q, "", time.Minute)
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"queue-not-served", "", func(t *testing.T, q backends) ops.Question {
		run(t, engine.Worker{Backend: q, Handler: blocks, Queues: []string{"emails"}})
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "email"})}
	}},
	{"kind-not-handled", "", func(t *testing.T, q backends) ops.Question {
		mux := queue.NewMux()
		mux.Handle("email.send", blocks)
		run(t, engine.Worker{Backend: q, Handler: mux})
		return ops.Question{ID: enqueue(t, q, queue.Job{Kind: "emails.send"})}
	}},
	{"workers-busy", "", func(t *testing.T, q backends) ops.Question {
		enqueue(t, q, queue.Job{})
		run(t, engine.Worker{Backend: q, Handler: blocks, Concurrency: 1, Prefetch: -1})
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"workers-draining", "", func(t *testing.T, q backends) ops.Question {
		held := enqueue(t, q, queue.Job{})
		stop := run(t, engine.Worker{Backend: q, Handler: blocks, Concurrency: 1, Prefetch: -1})
		eventually(t, "it holds a job", func() bool {
			r, _, err := q.Job(t.Context(), held)
			return err == nil && r.Status == queue.StatusRunning
		})
		stop()
		eventually(t, "it has reported that it stops", func() bool { return !workers(t, q)[0].DrainingAt.IsZero() })
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"claims-fail", "", func(t *testing.T, q backends) ops.Question {
		run(t, engine.Worker{Backend: cannotClaim{q}, Handler: blocks, Logger: slog.New(slog.DiscardHandler)})
		return ops.Question{ID: enqueue(t, q, queue.Job{})}
	}},
	{"workers-busy", "starved", func(t *testing.T, q backends) ops.Question { // busy with its own queue
		ago := time.Now().Add(-time.Minute)
		enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})
		claim(t, q, "q", time.Minute)
		enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{"first", "q"}})
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})}
	}},
	{"starved", "workers-busy", func(t *testing.T, q backends) ops.Question {
		ago := time.Now().Add(-time.Minute)
		enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		run(t, engine.Worker{Backend: q, Handler: blocks, Queues: []string{"first", "q"}, Concurrency: 1, Prefetch: -1})
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})}
	}},
	{"starved", "", func(t *testing.T, q backends) ops.Question {
		ago := time.Now().Add(-time.Minute)
		report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"first", "q"}})
		enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		return ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})}
	}},
}

// cannotClaim is a backend whose claims fail.
type cannotClaim struct{ backends }

func (cannotClaim) Claim(context.Context, queue.ClaimRequest) ([]*queue.Job, error) {
	return nil, errors.New("no connection")
}

// blocks is a handler that returns when its context ends.
var blocks = queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
	<-ctx.Done()
	return ctx.Err()
})

// backends is what the cases need of a backend.
type backends interface {
	queue.Queue
	driver.Inspector
	driver.Canceller
	driver.Pauser
	driver.Ruler
	driver.Reclaimer
	driver.Fleet
	driver.Editor
	driver.Auditor
}

// TestExplainWorkers: Explain names what is wrong with the workers, and nothing else.
func TestExplainWorkers(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for name, open := range everyBackend {
		for _, c := range workerCases {
			t.Run(name+"/"+c.reason, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				a := explain(t, q, c.make(t, q))
				if want := strings.TrimSpace(c.reason + " " + c.also); reasonIDs(a) != want || a.Level() == ops.OK {
					t.Errorf("want %s alone, and not ok", want)
				}
			})
		}
	}
}

// noBacklogs is a queue that fails the test if somebody asks for backlogs, which are slow to read.
type noBacklogs struct {
	*memory.Queue
	t *testing.T
}

func (q noBacklogs) Backlogs(context.Context) ([]driver.Backlog, error) {
	q.t.Error("Backlogs was called")
	return nil, nil
}

// TestNotStarved: where a worker serves the job's queue before all others, no queue is looked for
// that its workers prefer.
func TestNotStarved(t *testing.T) {
	q := noBacklogs{memory.New(memory.Options{}), t}
	ago := time.Now().Add(-time.Minute)
	report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"first", "q"}})
	report(t, q, driver.WorkerInfo{Name: "two", Queues: []string{"q", "first"}})
	enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
	a, err := ops.Explain(t.Context(), q, ops.Question{ID: enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})})
	if err != nil || strings.Contains(reasonIDs(a), "starved") {
		t.Errorf("got %s, %v", reasonIDs(a), err)
	}
}
