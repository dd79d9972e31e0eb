package postgres_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// TestQueueSlots: jobs of a queue that block hold no more slots of a worker than Slots says, and
// the jobs of the other queue run meanwhile.
func TestQueueSlots(t *testing.T) {
	t.Parallel()
	q, err := postgres.New(postgrestest.Open(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const emails = 3000
	enqueueMany := func(name string, n int) {
		batch := make([]*queue.Job, n)
		for i := range batch {
			batch[i] = &queue.Job{Queue: name, Kind: "k"}
		}
		if err := q.Enqueue(t.Context(), nil, batch...); err != nil {
			t.Fatal(err)
		}
	}
	enqueueMany("reports", 20)
	enqueueMany("emails", emails)
	var mu sync.Mutex
	running, most, sent := 0, 0, 0
	hold, done := make(chan struct{}), make(chan struct{})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	reports := 0
	handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		mu.Lock()
		if job.Queue == "emails" {
			if sent++; sent == emails {
				close(done)
			}
			mu.Unlock()
			return nil
		}
		running++
		most = max(most, running)
		mu.Unlock()
		<-hold
		mu.Lock()
		defer mu.Unlock()
		running--
		if reports++; reports == 20 {
			stop()
		}
		return nil
	})
	go func() {
		select {
		case <-done: // while reports hold their slots
		case <-ctx.Done():
		}
		close(hold)
	}()
	err = engine.Worker{Backend: q, Handler: handler, Queues: []string{"reports", "emails"}, Slots: map[string]int{"reports": 2}, Concurrency: 5,
		Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
	if err != nil || most != 2 || sent != emails || reports != 20 {
		t.Errorf("%v; %d reports at once, want 2; %d emails and %d reports done", err, most, sent, reports)
	}
}
