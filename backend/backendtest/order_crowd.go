package backendtest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// testOrderTurns: no group waits while others have one turn after the other. Each process of a
// database may count the turns for itself, and h may be four.
func testOrderTurns(t *testing.T, h Harness) {
	const groups, turns, processes = 5, 8, 4
	for i := range groups {
		enqueue(t, h, line(fmt.Sprint("g", i), groups*turns)...)
	}
	had := make(map[string]int)
	for range groups * turns {
		got := claim(t, h, request(1))
		if len(got) != 1 {
			t.Fatalf("claim with limit 1: got %v", ids(got))
		}
		had[got[0].Group]++
		settle(t, h, queue.Outcome{Job: got[0]})
	}
	for group, n := range had {
		if n < turns-processes || n > turns+processes || len(had) < groups {
			t.Errorf("of %d claims, group %s had %d, want about %d; all: %v", groups*turns, group, n, turns, had)
		}
	}
}

// testOrderManyGroups: a claim finds all that is due, however many groups are blocked.
func testOrderManyGroups(t *testing.T, h Harness) {
	const groups = 1500
	jobs := newJobs(2*groups, func(i int, j *queue.Job) { j.Group, j.Ordered = fmt.Sprint("g", i%groups), true })
	enqueue(t, h, jobs...)
	wantSameIDs(t, "claim of all groups", claim(t, h, request(2*groups)), jobs[:groups])
	last := ordered("h")
	enqueue(t, h, last)
	wantIDs(t, "claim behind 1,500 groups that run", claimSoon(t, h, request(1), 1), []*queue.Job{last})
}

// lines checks what claimers do with ordered jobs: each must be the first of its group that has not
// ended, and no other of the group may run.
type lines struct {
	mu      sync.Mutex
	left    map[string][]int64 // IDs that have not ended, in order
	running map[string]int64
}

func newLines(jobs []*queue.Job) *lines {
	l := &lines{left: make(map[string][]int64), running: make(map[string]int64)}
	for _, j := range jobs {
		l.left[j.Group] = append(l.left[j.Group], j.ID)
	}
	return l
}

func (l *lines) start(t *testing.T, j *queue.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.running[j.Group]; other != 0 {
		t.Errorf("overlap: job %d of group %s started while job %d runs", j.ID, j.Group, other)
	}
	if left := l.left[j.Group]; len(left) == 0 || left[0] != j.ID {
		t.Errorf("inversion: job %d of group %s started while %v have not ended", j.ID, j.Group, left)
	}
	l.running[j.Group] = j.ID
}

// stop notes that a run is over before it is settled: afterwards the next may start at once.
func (l *lines) stop(j *queue.Job, hasEnded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, j.Group)
	if hasEnded && len(l.left[j.Group]) > 0 {
		l.left[j.Group] = l.left[j.Group][1:]
	}
}

func testOrderClaimers(t *testing.T, h Harness) {
	const groups, each, claimers = 1000, 6, 8
	jobs := newJobs(groups*each, func(i int, j *queue.Job) { j.Group, j.Ordered = fmt.Sprint("g", i%groups), true })
	enqueue(t, h, jobs...)
	l := newLines(jobs)
	var (
		ended atomic.Int64
		wg    sync.WaitGroup
		end   = time.Now().Add(2 * patience)
	)
	for i := range claimers {
		wg.Go(func() {
			req := request(1 + rand.IntN(150))
			req.Worker = fmt.Sprint("w", i)
			for ended.Load() < int64(len(jobs)) && time.Now().Before(end) {
				claimed, err := h.Queue.Claim(t.Context(), req)
				if err != nil {
					t.Errorf("Claim by %s: %v", req.Worker, err)
					return
				}
				batch := outcomes(queue.Done, claimed...)
				for i, j := range claimed {
					l.start(t, j)
					batch[i].Action = []queue.OutcomeAction{queue.Done, queue.Dead, queue.Release, queue.Retry}[max(0, rand.IntN(8)-4)]
				}
				for _, o := range batch {
					hasEnded := o.Action == queue.Done || o.Action == queue.Dead || o.Action == queue.Retry && o.Job.Attempt == o.Job.MaxAttempts
					l.stop(o.Job, hasEnded)
					if hasEnded {
						ended.Add(1)
					}
				}
				if lost, err := h.Queue.Settle(t.Context(), nil, batch...); err != nil || len(lost) != 0 {
					t.Errorf("Settle by %s: lost %v, error %v; want neither", req.Worker, ids(lost), err)
				}
			}
		})
	}
	wg.Wait()
	if n := ended.Load(); n != int64(len(jobs)) {
		t.Errorf("%d claimers ended %d jobs, want %d", claimers, n, len(jobs))
	}
}

// testOrderWorker: a worker that has settled a job claims the next of its group.
func testOrderWorker(t *testing.T, h Harness) {
	jobs := append(line("a", 20), line("b", 20)...)
	done := make(chan int64, len(jobs))
	enqueue(t, h, jobs...)
	stop := startWorker(t, engine.Worker{
		Backend: h.Queue, Queues: []string{"q"}, Poll: patience, Lease: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error { done <- job.ID; return nil }),
	})
	defer stop()
	deadline := time.After(patience / 2)
	for i := range jobs {
		select {
		case <-done:
		case <-deadline:
			t.Fatalf("%d of %d jobs ran within %v, by a worker that polls each %v", i, len(jobs), patience/2, patience)
		}
	}
}
