package telemetry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// many is a queue that has more queues than a metric may have series.
type many struct {
	*queuetest.Queue
	workers  []driver.WorkerRecord
	counts   []queue.StatusCount
	backlogs []driver.Backlog
}

func (m *many) Workers(context.Context) ([]driver.WorkerRecord, error) { return m.workers, nil }
func (m *many) Counts(context.Context) ([]queue.StatusCount, error)    { return m.counts, nil }
func (m *many) Backlogs(context.Context) ([]driver.Backlog, error)     { return m.backlogs, nil }

// wantSame checks that a metric has so many series, the wanted ones among them, in each collection.
func (r *rig) wantSame(name string, series int, want ...string) {
	r.Helper()
	first := r.metric(name)
	if len(first) != series {
		r.Errorf("%s: got %d series, want %d: %.300q", name, len(first), series, first)
	}
	for _, w := range want {
		if !slices.Contains(first, w) {
			r.Errorf("%s: no series is %q: %.300q", name, w, first)
		}
	}
	if slices.ContainsFunc(first, func(s string) bool { return strings.HasPrefix(s, "true ") }) {
		r.Errorf("%s: the SDK has dropped series", name)
	}
	for range 3 {
		if again := r.metric(name); !slices.Equal(first, again) {
			r.Fatalf("%s: a second collection has other series", name)
		}
	}
}

// TestObserveWorkersOfManyQueues: of more queues than a metric may have series those with the most
// slots are told apart, in each collection the same ones, and no slot is forgotten.
func TestObserveWorkersOfManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		q := &many{Queue: r.memory}
		stop, err := r.ObserveWorkers(q)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		serve := func(from, to int) {
			q.workers = nil
			for i := from; i < to; i++ {
				q.workers = append(q.workers, driver.WorkerRecord{
					WorkerInfo: driver.WorkerInfo{Name: fmt.Sprint("w", i), Queues: []string{fmt.Sprintf("q%04d", i)}, Concurrency: i + 1, Busy: 1},
					StartedAt:  time.Now().Add(-time.Duration(i) * time.Second), SeenAt: time.Now(),
				})
			}
		}
		serve(0, 2500)
		const others = 502 * 503 / 2 // all but the 1998 with the most slots
		r.wantSame("errand.slot.limit", 1999, "q2499 2500", "q0502 503", fmt.Sprint("(other) ", others))
		r.wantSame("errand.slot.usage", 1999, "q2499 1", "(other) 502")
		r.wantSame("errand.queue.oldest_claim.age", 1999, "q2499 2499", "(other) 501")
		r.wantSame("errand.fleet.size", 3, "live 2500")

		serve(0, 10) // the others stay, with zeros, as long as there is room
		r.wantSame("errand.slot.limit", 1999, "q0009 10", "q0502 0", "(other) 0")
		r.wantSame("errand.slot.usage", 1999, "q0009 1", "(other) 0")
		r.wantSame("errand.queue.oldest_claim.age", 10, "q0009 9")
	})
}

// TestObserveManyQueues: likewise of queues, each of which has a series for each status.
func TestObserveManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		q := &many{Queue: r.memory}
		for i := range 3000 {
			name := fmt.Sprintf("q%04d", i)
			q.counts = append(q.counts, queue.StatusCount{Queue: name, Status: queue.StatusCompleted, Jobs: 10_000 - int64(i)},
				queue.StatusCount{Queue: name, Status: queue.StatusPending, Jobs: int64(i + 1)})
			q.backlogs = append(q.backlogs, driver.Backlog{Queue: name, Age: time.Duration(3000-i) * time.Second})
		}
		stop, err := r.Observe(q)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		const others = 2502 * 2503 / 2 // all but the 498 with the most jobs
		r.wantSame("errand.queue.depth", 498*4+2, "pending q2999 3000", "completed q2999 7001", "dead q2999 0", fmt.Sprint("pending (other) ", others))
		r.wantSame("errand.queue.oldest_due.age", 499, "q2999 1", "(other) 3000")

		for i := range q.counts { // a status more: fewer queues have room
			if q.counts[i].Status == queue.StatusPending {
				q.counts = append(q.counts, queue.StatusCount{Queue: q.counts[i].Queue, Status: queue.StatusHeld, Jobs: 1})
			}
		}
		r.wantSame("errand.queue.depth", 398*5+3, "held q2999 1", "held (other) 2602")

		q.counts, q.backlogs = q.counts[:0], nil // the others stay, with zeros
		r.wantSame("errand.queue.depth", 398*5+3, "held q2999 0", "held (other) 0", "pending (other) 0", "completed (other) 0")
		r.wantSame("errand.queue.oldest_due.age", 399, "q2999 0", "(other) 0")
	})
}

// TestObserveDueQueueWithRoom: a queue that the counts do not know yet is told apart while there is
// room for it.
func TestObserveDueQueueWithRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Options{})
		q := &many{Queue: r.memory}
		for i := range 498 {
			name := fmt.Sprintf("q%04d", i)
			if i > 0 {
				q.counts = append(q.counts, queue.StatusCount{Queue: name, Status: queue.StatusPending, Jobs: 1})
			}
			q.backlogs = append(q.backlogs, driver.Backlog{Queue: name, Age: time.Duration(i+1) * time.Second})
		}
		stop, err := r.Observe(q)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		r.wantSame("errand.queue.oldest_due.age", 498, "q0000 1", "q0497 498")
	})
}
