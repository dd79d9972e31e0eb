package engine

import (
	"math"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestTakeNothing: what take returns is not what runs are counted in, also if there were none yet.
func TestTakeNothing(t *testing.T) {
	counted := tallies{all: make(map[tallyKey]*queue.Stats)}
	taken := counted.take()
	counted.addRun(1, queue.Event{Type: queue.EventCompleted, Job: &queue.Job{Queue: "q", Kind: "k"}}, 0)
	if len(taken) != 0 {
		t.Error("a run is counted in what was taken before it")
	}
	if len(counted.take()) != 1 || len(counted.take()) != 0 {
		t.Error("a run is not taken, or twice")
	}
}

// TestTallyOfAnything: whatever jobs a worker has run, it can report them.
func TestTallyOfAnything(t *testing.T) {
	counted := tallies{all: make(map[tallyKey]*queue.Stats)}
	done := queue.Event{Type: queue.EventCompleted, Job: &queue.Job{Queue: "q", Kind: "k"}}
	for _, waited := range []time.Duration{math.MaxInt64, math.MaxInt64, -1, time.Hour} {
		done.Took = max(waited, 0)
		counted.addRun(1, done, waited)
	}
	counted.addRun(1, queue.Event{Type: queue.EventRetried, Job: &queue.Job{Queue: "q", Kind: "ä"}}, 0)
	counted.addReclaimed(1, reclaimedEvents([]*queue.Job{{Kind: "k", MaxAttempts: 1}}))
	taken := counted.take()
	done.Took = 1
	counted.addRun(1, done, 1)
	counted.putBack(taken)
	all := statsOf(counted.take(), time.Now())
	if err := (driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "w"}, Stats: all}).Check(); err != nil || len(all) != 2 {
		t.Fatalf("got %+v, error %v; want two valid statistics", all, err)
	}
	for _, s := range all {
		if s.Kind == "k" && (s.Done != 5 || s.Waited != math.MaxInt64) ||
			s.Kind != "k" && (s.Kind != driver.OtherStats || s.Queue != driver.OtherStats || s.Failed != 1 || s.Lost != 1) {
			t.Errorf("got %+v", s)
		}
	}
}
