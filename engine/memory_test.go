package engine_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// payloads knows the payloads of jobs without keeping them in memory.
type payloads struct {
	mu  sync.Mutex
	all []weak.Pointer[byte]
}

func (p *payloads) add(job *queue.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, weak.Make(&job.Payload[0]))
}

// wantReachable expects that at most that many of n payloads are in memory.
func (p *payloads) wantReachable(t *testing.T, n, most int) {
	t.Helper()
	runtime.GC()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) != n {
		t.Errorf("%d handlers have run, want %d", len(p.all), n)
	}
	reachable := 0
	for _, b := range p.all {
		if b.Value() != nil {
			reachable++
		}
	}
	if reachable > most {
		t.Errorf("%d payloads are reachable, want at most %d", reachable, most)
	}
}

// TestPayloadsAreNotKept: a slow job does not keep the payloads of its claim in memory, and an idle
// worker keeps none.
func TestPayloadsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1000)
		var seen payloads
		finish := make(chan struct{})
		handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			seen.add(job)
			if job.ID == 500 {
				<-finish
			}
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Concurrency: 2})
		time.Sleep(time.Minute)
		wantCount(t, q, queue.StatusCompleted, 999)
		seen.wantReachable(t, 1000, 2)
		close(finish)
		time.Sleep(time.Minute)
		wantCount(t, q, queue.StatusCompleted, 1000)
		seen.wantReachable(t, 1000, 0)
		w.stop()
	})
}
