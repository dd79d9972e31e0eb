package gateway_test

import (
	"context"
	"fmt"
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
	"github.com/errandhq/errand/queue"
)

// TestBusyClients: while jobs come one by one, a claim serves several of a thousand clients that
// wait, and no job waits for long.
func TestBusyClients(t *testing.T) {
	const clients, jobs, every = 1000, 3000, time.Second / 300
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		h := open(t, q, gateway.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		done := make(chan run, jobs)
		for i := range clients {
			running.Go(func() {
				worker := fmt.Sprint("w", i)
				for ctx.Err() == nil {
					w := sendIn(ctx, h, "POST", "/v1/claim", claimOne(worker, time.Hour))
					if ctx.Err() == nil {
						settleAll(t, h, w, worker, done)
					}
				}
			})
		}
		time.Sleep(starting)
		before, begun := q.calls.Load(), time.Now()
		for range jobs {
			enqueue(t, q, "k")
			time.Sleep(every)
		}
		calls := q.calls.Load() - before
		time.Sleep(time.Second)
		cancel()
		running.Wait()
		h.Close()
		longest := time.Duration(0)
		for range jobs {
			r := <-done
			longest = max(longest, r.at.Sub(begun.Add(time.Duration(r.job-1)*every)))
		}
		t.Logf("%d jobs for %d clients: %d calls, the longest wait took %v", jobs, clients, calls, longest)
		if calls > jobs*7/10 || longest > 10*time.Millisecond {
			t.Errorf("%d jobs for %d clients: %d calls, want at most 0.7 a job; the longest wait took %v, want at most 10ms", jobs, clients, calls, longest)
		}
	})
}

// run is a job that a client has settled.
type run struct {
	job int64
	at  time.Time
}

// settleAll completes the jobs of a claim, under the name of the client's worker.
func settleAll(t *testing.T, h *gateway.Handler, w *httptest.ResponseRecorder, worker string, done chan<- run) {
	t.Helper()
	var in wire.SettleRequest
	for _, j := range read[wire.ClaimAnswer](t, w).Jobs {
		in.Outcomes = append(in.Outcomes, wire.Outcome{ID: j.ID, Fence: j.Fence, Worker: worker, Action: "done"})
	}
	if len(in.Outcomes) == 0 {
		return
	}
	if a := read[wire.SettleAnswer](t, send(h, "POST", "/v1/settle", in)); len(a.Lost) != 0 {
		t.Errorf("settle by %s: lost %+v, want none", worker, a.Lost)
	}
	for _, o := range in.Outcomes {
		done <- run{o.ID, time.Now()}
	}
}

// together sends claims that come one after the other while the group waits, enqueues jobs of these
// payloads in one call, and returns the IDs that each client has got.
func together(t *testing.T, h *gateway.Handler, q queue.Queue, payloads []string, reqs ...wire.ClaimRequest) (got [][]int64) {
	t.Helper()
	got = make([][]int64, len(reqs))
	var clients sync.WaitGroup
	for i, req := range reqs {
		req.Queues, req.Worker, req.Wait = []string{"q"}, fmt.Sprint("w", i), time.Second
		clients.Go(func() {
			for _, j := range read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", req)).Jobs {
				got[i] = append(got[i], j.ID)
				if j.Worker != req.Worker {
					t.Errorf("job of client %s: the worker is %q", req.Worker, j.Worker)
				}
			}
		})
		synctest.Wait()
	}
	var jobs []*queue.Job
	for _, p := range payloads {
		jobs = append(jobs, &queue.Job{Queue: "q", Kind: "k", Payload: []byte(p)})
	}
	if err := q.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Error(err)
	}
	clients.Wait()
	return got
}

// TestShares: the jobs of one claim go to the clients in the order in which they came: first for
// their free slots, then ahead of these, and as many as fit in their bytes.
func TestShares(t *testing.T) {
	long := `"` + strings.Repeat("x", 1000) + `"`
	for name, c := range map[string]struct {
		payloads []string
		reqs     []wire.ClaimRequest
		want     [][]int64
		claims   int64 // that find jobs
	}{
		"one each":          {[]string{"1", "2"}, []wire.ClaimRequest{{}, {}, {}}, [][]int64{{1}, {2}, nil}, 1},
		"as many as wanted": {[]string{"1", "2", "3", "4"}, []wire.ClaimRequest{{Limit: 2}, {}, {Limit: 3}}, [][]int64{{1, 2}, {3}, {4}}, 1},
		"ahead": {
			[]string{"1", "2", "3", "4"}, []wire.ClaimRequest{{Limit: 3, Ahead: 2}, {Limit: 3, Ahead: 2}}, [][]int64{{1, 3, 4}, {2}}, 1,
		},
		"bytes": {
			[]string{"1", long, "3", "4"}, []wire.ClaimRequest{{Limit: 4, Bytes: 10}, {Limit: 3, Bytes: 1010}}, [][]int64{{1}, {2, 3, 4}}, 1,
		},
		"different leases": {
			[]string{"1", "2", "3"}, []wire.ClaimRequest{{}, {Lease: time.Minute}, {}}, [][]int64{{1}, {3}, {2}}, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newCounting()
				h := open(t, q, gateway.Options{})
				defer h.Close()
				found := int64(0)
				q.found = func() { found++ }
				got := together(t, h, q, c.payloads, c.reqs...)
				if !slices.EqualFunc(got, c.want, slices.Equal[[]int64]) || found != c.claims {
					t.Errorf("got %v in %d claims, want %v in %d", got, found, c.want, c.claims)
				}
			})
		})
	}
}

// TestReassignFails: if jobs cannot be given to their workers, they are released, and cost no
// attempt. The jobs of the first worker need nothing.
func TestReassignFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		q.left = true
		h := open(t, q, gateway.Options{})
		defer h.Close()
		got := together(t, h, q, []string{"1", "2"}, wire.ClaimRequest{}, wire.ClaimRequest{})
		if !slices.EqualFunc(got, [][]int64{{1}, {2}}, slices.Equal[[]int64]) || q.moves.Load() != 1 {
			t.Errorf("got %v after %d calls of Reassign; want a job each, the second by a claim of its own", got, q.moves.Load())
		}
		if r, _, err := q.Job(t.Context(), 2); err != nil || r.Attempt != 1 || r.Worker != "w1" {
			t.Errorf("second job: attempt %d of worker %q, error %v; want the first one of w1", r.Attempt, r.Worker, err)
		}
	})
}

// TestReassignUnknown: if it is not known whether jobs were given to their workers, they run again
// at once, and that costs no attempt.
func TestReassignUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		q.lies = true
		h := open(t, q, gateway.Options{})
		defer h.Close()
		got := together(t, h, q, []string{"1", "2"}, wire.ClaimRequest{}, wire.ClaimRequest{})
		if !slices.EqualFunc(got, [][]int64{{1}, {2}}, slices.Equal[[]int64]) {
			t.Errorf("got %v, want a job each", got)
		}
		if r, _, err := q.Job(t.Context(), 2); err != nil || r.Attempt != 1 {
			t.Errorf("second job: attempt %d, error %v; want the first one", r.Attempt, err)
		}
	})
}

// TestIdleFirst: a job is for a client with a free slot, not for one that came before it and has
// none, whatever their leases, and also while Reassign fails.
func TestIdleFirst(t *testing.T) {
	for _, lease := range []time.Duration{wire.DefaultLease, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			q := newCounting()
			q.left = true
			h := open(t, q, gateway.Options{})
			defer h.Close()
			got := together(t, h, q, []string{"1"}, wire.ClaimRequest{Limit: 1, Ahead: 1}, wire.ClaimRequest{Lease: lease})
			if !slices.EqualFunc(got, [][]int64{nil, {1}}, slices.Equal[[]int64]) || q.moves.Load() != 0 {
				t.Errorf("lease %v: got %v after %d calls of Reassign, want the job for the second client at once", lease, got, q.moves.Load())
			}
		})
	}
}

// TestAheadDoesNotWait: a client that cannot wait, and has no free slot, is answered although each
// claim finds jobs, which are for others.
func TestAheadDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		h := open(t, q, gateway.Options{})
		defer h.Close()
		go send(h, "POST", "/v1/claim", claimOne("idle", time.Minute))
		synctest.Wait()
		before := q.claims.Load()
		q.before = func() { enqueue(t, q.Queue, "k") }
		busy := wire.ClaimRequest{Queues: []string{"q"}, Worker: "busy", Limit: 1, Ahead: 1}
		if a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", busy)); len(a.Jobs) != 0 || q.claims.Load()-before != 1 {
			t.Errorf("client without a free slot: got %+v after %d claims, want nothing after one", a.Jobs, q.claims.Load()-before)
		}
	})
}

// plainQueue is a queue without further capabilities.
type plainQueue struct{ queue.Queue }

// TestNoReassigner: over a backend that is no Reassigner each client has claims of its own.
func TestNoReassigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := plainQueue{memory.New(memory.Options{})}
		h := open(t, q, gateway.Options{Poll: time.Millisecond})
		defer h.Close()
		got := together(t, h, q, []string{"1", "2"}, wire.ClaimRequest{}, wire.ClaimRequest{})
		if !slices.EqualFunc(got, [][]int64{{1}, {2}}, slices.Equal[[]int64]) {
			t.Errorf("got %v, want a job each", got)
		}
	})
}

// TestNoFreeSlot: in a limited queue a client without a free slot gets nothing. That its claim
// comes back empty says nothing about the clients that have one.
func TestNoFreeSlot(t *testing.T) {
	for _, lease := range []time.Duration{wire.DefaultLease, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			q := memory.New(memory.Options{})
			if err := q.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Running: 2}); err != nil {
				t.Fatal(err)
			}
			enqueue(t, q, "k")
			h := open(t, q, gateway.Options{})
			defer h.Close()
			busy := wire.ClaimRequest{Queues: []string{"q"}, Worker: "busy", Ahead: 1, Limit: 1}
			if a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", busy)); len(a.Jobs) != 0 {
				t.Fatalf("client without a free slot: got %+v", a.Jobs)
			}
			busy.Wait = time.Minute
			go send(h, "POST", "/v1/claim", busy)
			synctest.Wait()
			free := wire.ClaimRequest{Queues: []string{"q"}, Worker: "free", Lease: lease, Wait: 20 * time.Second}
			begun := time.Now()
			a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", free))
			if took := time.Since(begun); len(a.Jobs) != 1 || took > time.Millisecond {
				t.Errorf("client with a free slot: got %+v after %v, want the job at once", a.Jobs, took)
			}
			free.Wait, free.Poll = 0, true
			enqueue(t, q, "k")
			if a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", free)); len(a.Jobs) != 1 {
				t.Errorf("client with a free slot that looks again: got %+v, want the job", a.Jobs)
			}
		})
	}
}
