package explain_test

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
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// workerCases are faults of workers. In them there is no idle worker.
var workerCases = []struct {
	reason string
	also   string // a further reason
	make   func(t *testing.T, q opstest.Backends) explain.Question
}{
	{"no-worker", "", func(t *testing.T, q opstest.Backends) explain.Question {
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})}
	}},
	{"worker-unreported", "", func(t *testing.T, q opstest.Backends) explain.Question { // as with a role that may not report
		opstest.Enqueue(t, q, queue.Job{})
		opstest.Claim(t, q, "", time.Minute)
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})}
	}},
	{"queue-not-served", "", func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Run(t, engine.Worker{Backend: q, Handler: opstest.Blocks, Queues: []string{"emails"}})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "email"})}
	}},
	{"kind-not-handled", "", func(t *testing.T, q opstest.Backends) explain.Question {
		mux := queue.NewMux()
		mux.Handle("email.send", opstest.Blocks)
		opstest.Run(t, engine.Worker{Backend: q, Handler: mux})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Kind: "emails.send"})}
	}},
	{"workers-busy", "", func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Enqueue(t, q, queue.Job{})
		opstest.Run(t, engine.Worker{Backend: q, Handler: opstest.Blocks, Concurrency: 1, Prefetch: -1})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})}
	}},
	{"workers-draining", "", func(t *testing.T, q opstest.Backends) explain.Question {
		held := opstest.Enqueue(t, q, queue.Job{})
		stop := opstest.Run(t, engine.Worker{Backend: q, Handler: opstest.Blocks, Concurrency: 1, Prefetch: -1})
		opstest.Eventually(t, "it holds a job", func() bool {
			r, _, err := q.Job(t.Context(), held)
			return err == nil && r.Status == queue.StatusRunning
		})
		stop()
		opstest.Eventually(t, "it has reported that it stops", func() bool { return !opstest.Workers(t, q)[0].DrainingAt.IsZero() })
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})}
	}},
	{"claims-fail", "", func(t *testing.T, q opstest.Backends) explain.Question {
		opstest.Run(t, engine.Worker{Backend: cannotClaim{q}, Handler: opstest.Blocks, Logger: slog.New(slog.DiscardHandler)})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{})}
	}},
	{"workers-busy", "starved", func(t *testing.T, q opstest.Backends) explain.Question { // busy with its own queue
		ago := time.Now().Add(-time.Minute)
		opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})
		opstest.Claim(t, q, "q", time.Minute)
		opstest.Enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{"first", "q"}})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})}
	}},
	{"starved", "workers-busy", func(t *testing.T, q opstest.Backends) explain.Question {
		ago := time.Now().Add(-time.Minute)
		opstest.Enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		opstest.Enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		opstest.Run(t, engine.Worker{Backend: q, Handler: opstest.Blocks, Queues: []string{"first", "q"}, Concurrency: 1, Prefetch: -1})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})}
	}},
	{"starved", "", func(t *testing.T, q opstest.Backends) explain.Question {
		ago := time.Now().Add(-time.Minute)
		opstest.Report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"first", "q"}})
		opstest.Enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
		return explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})}
	}},
}

// cannotClaim is a backend whose claims fail.
type cannotClaim struct{ opstest.Backends }

func (cannotClaim) Claim(context.Context, queue.ClaimRequest) ([]*queue.Job, error) {
	return nil, errors.New("no connection")
}

// TestExplainWorkers: explain names what is wrong with the workers, and nothing else.
func TestExplainWorkers(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		for _, c := range workerCases {
			t.Run(name+"/"+c.reason, func(t *testing.T) {
				t.Parallel()
				q := open(t)
				a := opstest.Explain(t, q, c.make(t, q))
				if want := strings.TrimSpace(c.reason + " " + c.also); opstest.ReasonIDs(a) != want || a.Level() == ops.OK {
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
	opstest.Report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"first", "q"}})
	opstest.Report(t, q, driver.WorkerInfo{Name: "two", Queues: []string{"q", "first"}})
	opstest.Enqueue(t, q, queue.Job{Queue: "first", ScheduledAt: ago})
	a, err := explain.Job(t.Context(), q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q", ScheduledAt: ago})})
	if err != nil || strings.Contains(opstest.ReasonIDs(a), "starved") {
		t.Errorf("got %s, %v", opstest.ReasonIDs(a), err)
	}
}
