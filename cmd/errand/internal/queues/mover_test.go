package queues

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var errCut = errors.New("the connection is cut")

// broken is a database whose calls fail at random: a third before they take effect, a third after.
type broken struct {
	*memory.Queue
	rand *rand.Rand
}

func newBroken(seed uint64) *broken {
	return &broken{memory.New(memory.Options{}), rand.New(rand.NewPCG(seed, 1))}
}

// do runs a call that may fail.
func (c *broken) do(f func() error) error {
	luck := c.rand.IntN(3)
	if luck == 0 {
		return errCut
	}
	if err := f(); err != nil || luck == 2 {
		return err
	}
	return errCut
}

func (c *broken) Edit(ctx context.Context, db queue.DB, which queue.Selection, change queue.JobChange) (n int, err error) {
	err = c.do(func() (err error) {
		n, err = c.Queue.Edit(ctx, db, which, change)
		return err
	})
	return n, err
}

func (c *broken) Delete(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	err = c.do(func() (err error) {
		n, err = c.Queue.Delete(ctx, db, which)
		return err
	})
	return n, err
}

func (c *broken) Receive(ctx context.Context, transfers ...driver.Transfer) (n int, err error) {
	err = c.do(func() (err error) {
		n, err = c.Queue.Receive(ctx, transfers...)
		return err
	})
	return n, err
}

// newTestMover moves the queue "clicks".
func newTestMover(from, to *broken) *mover {
	return &mover{
		name: "clicks", from: from, to: to, moved: func(int) {},
		setAside: func(ctx context.Context, which queue.Selection, to string) (int, error) {
			return from.Edit(ctx, nil, which, queue.JobChange{Queue: to})
		},
		step:    func(ctx context.Context, f func(context.Context) error) error { return f(ctx) },
		ordered: func(context.Context) error { return nil },
	}
}

// liveIn returns the live jobs of a queue, the newest first.
func liveIn(t *testing.T, q *memory.Queue, name string) (live []queue.Record) {
	t.Helper()
	for _, status := range []queue.Status{queue.StatusPending, queue.StatusRunning, queue.StatusHeld} {
		page, _, err := q.Jobs(t.Context(), queue.Filter{Queue: name, Status: status, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, page...)
	}
	return live
}

// TestMoveCrashes: a move that dies again and again, before or after each of its steps has taken
// effect, moves each job once, as it was and in its order.
func TestMoveCrashes(t *testing.T) {
	const jobs = 700
	from, to := newBroken(1), newBroken(2)
	all := clitest.Clicks(0, jobs)
	for i, j := range all {
		j.Key, j.MaxAttempts = fmt.Sprint("k", i), 7
		if i%3 == 0 {
			j.Delay = time.Hour
		}
	}
	if err := from.Enqueue(t.Context(), nil, all...); err != nil {
		t.Fatal(err)
	}
	first := from.claim(t, 1)
	_, err := from.Settle(t.Context(), nil, queue.Outcome{Job: first[0], Action: queue.Retry, Err: errCut})
	if err != nil {
		t.Fatal(err)
	}
	was, _, err := from.Job(t.Context(), first[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	deaths := 0
	for m := newTestMover(from, to); len(liveIn(t, from.Queue, "clicks"))+len(liveIn(t, from.Queue, m.transit())) > 0; deaths++ {
		if err := m.pass(t.Context()); err != nil && !errors.Is(err, errCut) || deaths > 1000 {
			t.Fatalf("after %d deaths: %v", deaths, err)
		}
	}
	if deaths < 5 {
		t.Errorf("the move has died %d times only", deaths)
	}
	arrived := liveIn(t, to.Queue, "clicks")
	if len(arrived) != jobs {
		t.Fatalf("jobs that have arrived: got %d, want %d", len(arrived), jobs)
	}
	for i, r := range arrived {
		n := jobs - 1 - i
		if string(r.Payload) != fmt.Sprint(n) || r.Key != fmt.Sprint("k", n) || r.MaxAttempts != 7 {
			t.Fatalf("the job at %d: got %s with key %s", n, r.Payload, r.Key)
		}
		if string(r.Payload) == string(was.Payload) && (r.Attempt != 1 || r.LastError != errCut.Error() ||
			!r.CreatedAt.Equal(was.CreatedAt) || !r.ScheduledAt.Equal(was.ScheduledAt)) {
			t.Errorf("a job that has failed once:\n got %+v\nwant %+v", r, was)
		}
	}
}

func (c *broken) claim(t *testing.T, n int) []*queue.Job {
	t.Helper()
	jobs, err := c.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"clicks"}, Limit: n, Lease: time.Hour, Worker: "w"})
	if err != nil || len(jobs) != n {
		t.Fatalf("claim: got %d jobs, error %v; want %d", len(jobs), err, n)
	}
	return jobs
}

// TestMoveBesideWorkers: while programs enqueue and work in both databases, a queue is moved by
// moves that die. Each job runs once.
func TestMoveBesideWorkers(t *testing.T) {
	const jobs = 3000
	from, to := newBroken(3), newBroken(4)
	var mu sync.Mutex
	ran := make(map[string]int)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	for _, q := range []*memory.Queue{from.Queue, to.Queue} {
		workers.Go(func() {
			err := engine.Worker{Backend: q, Queues: []string{"clicks"}, Concurrency: 2, Prefetch: -1, Handler: queue.HandlerFunc(
				func(_ context.Context, job *queue.Job) error {
					time.Sleep(100 * time.Microsecond)
					mu.Lock()
					defer mu.Unlock()
					if ran[string(job.Payload)]++; len(ran) == jobs {
						close(done)
					}
					return nil
				})}.Run(ctx)
			if err != nil {
				t.Error(err)
			}
		})
	}
	workers.Go(func() {
		for i := 0; i < jobs && ctx.Err() == nil; i += 10 {
			if err := from.Enqueue(ctx, nil, clitest.Clicks(i, 10)...); err != nil {
				t.Error(err)
			}
		}
	})
	m := newTestMover(from, to)
	moved := 0
	m.moved = func(n int) { moved += n }
	for isDone := false; !isDone; {
		if err := m.pass(ctx); err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		select {
		case <-done:
			isDone = true
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	workers.Wait()
	for payload, n := range ran {
		if n != 1 {
			t.Errorf("job %s has run %d times, want once", payload, n)
		}
	}
	if moved == 0 {
		t.Error("no job was moved")
	}
}

// TestSourceOf: the new database knows a job by the same name whatever version of errand moves it:
// a move that was interrupted may go on after an upgrade.
func TestSourceOf(t *testing.T) {
	m := &mover{name: "clicks"}
	created := time.UnixMicro(1_790_000_000_123_456)
	for _, at := range []time.Time{created, created.UTC(), created.In(time.FixedZone("east", 7200)).Add(999)} {
		got := m.sourceOf(queue.Record{Job: queue.Job{ID: 42, Queue: m.transit(), Kind: "click", CreatedAt: at}})
		if want := "move f0e267b59fc499a5d49b1dea94be03bf"; got != want {
			t.Errorf("created at %v: got %q, want %q", at, got, want)
		}
	}
}
