package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// patience bounds what a test waits for.
const patience = 20 * time.Second

// TestNew: bad URLs are refused.
func TestNew(t *testing.T) {
	for _, urls := range [][]string{nil, {""}, {"localhost:80"}, {"ftp://a"}, {"http://a", "http://u:p@b"}, {"http://a?b=c"}, {"http://"}} {
		if _, err := remote.New(urls, remote.Options{}); !isInvalid(err) {
			t.Errorf("New(%q): got %v, want an InvalidError", urls, err)
		}
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*queue.InvalidError](err)
	return ok
}

// faulty is a server in front of a gateway, which a test breaks.
type faulty struct {
	gateway atomic.Pointer[http.Handler]
	status  atomic.Int64 // if not 0, the answer to all requests
	loses   atomic.Int64 // how many answers to lose after the gateway has acted
	asked   atomic.Int64
}

// newFaulty returns a server in front of g that does not break anything yet.
func newFaulty(g http.Handler) *faulty {
	f := new(faulty)
	f.gateway.Store(&g)
	return f
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked.Add(1)
	if status := f.status.Load(); status != 0 {
		w.WriteHeader(int(status))
		return
	}
	behind := *f.gateway.Load()
	if f.loses.Add(-1) >= 0 {
		behind.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	behind.ServeHTTP(w, r)
}

// serveFaulty starts a gateway of q behind a server that a test breaks.
func serveFaulty(t *testing.T, q queue.Queue) (url string, f *faulty) {
	t.Helper()
	_, g := serve(t, q, often)
	f = newFaulty(g)
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL, f
}

// serveSilent starts a server that tells which requests arrive, and answers none.
func serveSilent(t *testing.T) (url string, arrived chan struct{}) {
	t.Helper()
	arrived = make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client hangs up
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	return s.URL, arrived
}

func job(kind string) *queue.Job { return &queue.Job{Queue: "q", Kind: kind} }

// stored returns how many jobs q has.
func stored(t *testing.T, q driver.Inspector) (n int64) {
	t.Helper()
	counts, err := q.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		n += c.Jobs
	}
	return n
}

// TestEnqueueAnswerLost: a lost answer is asked for again at the gateway that has acted. Where that
// is not possible, the error says that it is not known what was written.
func TestEnqueueAnswerLost(t *testing.T) {
	m := memory.New(memory.Options{})
	url, f := serveFaulty(t, m)
	q := connect(t, url)
	f.loses.Store(1)
	if err := q.Enqueue(t.Context(), nil, job("k")); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("answer of an unknown gateway lost: got %v, want ErrUnknown", err)
	}
	if err := q.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.loses.Store(1)
	j := job("k")
	if err := q.Enqueue(t.Context(), nil, j); err != nil || j.ID != 2 || stored(t, m) != 2 {
		t.Errorf("answer of a known gateway lost: got %v, job %d of %d; want the second of two", err, j.ID, stored(t, m))
	}
	f.loses.Store(2)
	if err := q.Enqueue(t.Context(), nil, job("k")); !errors.Is(err, queue.ErrUnknown) || stored(t, m) != 3 {
		t.Errorf("both answers lost: got %v and %d jobs; want ErrUnknown and 3", err, stored(t, m))
	}
	_, g := serve(t, m, often)
	restarted := http.Handler(g)
	f.gateway.Store(&restarted)
	if err := q.Enqueue(t.Context(), nil, job("k")); err != nil || stored(t, m) != 4 {
		t.Errorf("gateway restarted: got %v and %d jobs; want 4", err, stored(t, m))
	}
}

// TestFailover: calls go to the next gateway if one is not there, or a proxy says so. An enqueue
// that a proxy may have passed on is not repeated.
func TestFailover(t *testing.T) {
	m := memory.New(memory.Options{})
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	url, f := serveFaulty(t, m)
	second, _ := serve(t, m, often)
	q := connect(t, "http://"+dead.Addr().String(), url, second)
	if err := q.Enqueue(t.Context(), nil, job("a"), job("b")); err != nil {
		t.Fatalf("Enqueue with one gateway stopped: %v", err)
	}
	req := queue.ClaimRequest{Queues: []string{"q"}, Limit: 2, Lease: time.Minute, Worker: "w"}
	held, err := q.Claim(t.Context(), req)
	if err != nil || len(held) != 2 {
		t.Fatalf("Claim: %d jobs, %v", len(held), err)
	}
	for i, status := range []int64{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		q := connect(t, url, second)
		f.status.Store(status)
		if lost, _, err := q.Extend(t.Context(), time.Minute, held[min(i, 1):]...); err != nil || len(lost) != 0 {
			t.Errorf("Extend behind a proxy that answers %d: lost %d, %v", status, len(lost), err)
		}
		q = connect(t, url, second)
		if err := q.Enqueue(t.Context(), nil, job("c")); !errors.Is(err, queue.ErrUnknown) {
			t.Errorf("Enqueue behind a proxy that answers %d: got %v, want ErrUnknown", status, err)
		}
		if i == 0 {
			q = connect(t, url, second)
			if lost, err := q.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}); err != nil || len(lost) != 0 {
				t.Errorf("Settle through another gateway than the claim's: lost %d, %v", len(lost), err)
			}
		}
	}
	f.status.Store(http.StatusNotFound)
	if _, err := connect(t, url, second).Claim(t.Context(), req); err == nil {
		t.Error("a server that is no gateway answered 404, and Claim asked the next one")
	}
}

// TestCancelledCall: a caller that cancels its call says nothing of the gateway, so the next call
// goes to the same one. A deadline that has passed does.
func TestCancelledCall(t *testing.T) {
	m := memory.New(memory.Options{})
	_, g := serve(t, m, often)
	arrived := make(chan struct{})
	var hangs atomic.Bool
	first := newFaulty(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			arrived <- struct{}{}
			<-r.Context().Done()
			return
		}
		g.ServeHTTP(w, r)
	}))
	s := httptest.NewServer(first)
	defer s.Close()
	second, f := serveFaulty(t, m)
	q := connect(t, s.URL, second)
	hangs.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if err := q.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: got %v", err)
	}
	hangs.Store(false)
	if err := q.Check(t.Context()); err != nil || first.asked.Load() != 2 || f.asked.Load() != 0 {
		t.Errorf("call after a cancelled one: %v; %d requests at the first gateway, %d at the second; want 2 and 0",
			err, first.asked.Load(), f.asked.Load())
	}
	hangs.Store(true)
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	go func() { <-arrived }()
	if err := q.Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call whose deadline passed: got %v", err)
	}
	if err := q.Check(t.Context()); err != nil || f.asked.Load() != 1 {
		t.Errorf("call after one whose deadline passed: %v; %d requests at the second gateway, want 1", err, f.asked.Load())
	}
}

// TestExtendMany: Extend takes more jobs than the gateway does in one request.
func TestExtendMany(t *testing.T) {
	m := memory.New(memory.Options{})
	url, _ := serve(t, m, gateway.Options{MaxJobs: 3})
	q := connect(t, url)
	var held []*queue.Job
	for range 4 {
		if err := m.Enqueue(t.Context(), nil, job("k"), job("k")); err != nil {
			t.Fatal(err)
		}
		jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"q"}, Limit: 2, Lease: time.Minute, Worker: "w"})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, jobs...)
	}
	if lost, err := m.Settle(t.Context(), nil, queue.Outcome{Job: held[1]}, queue.Outcome{Job: held[6]}); err != nil || len(lost) != 0 {
		t.Fatalf("Settle: lost %d, %v", len(lost), err)
	}
	lost, _, err := q.Extend(t.Context(), time.Minute, held...)
	if err != nil || len(held) != 8 || len(lost) != 2 || lost[0] != held[1] || lost[1] != held[6] {
		t.Errorf("Extend of %d jobs, two of them settled: lost %v, %v; want these two", len(held), lost, err)
	}
}

// TestHalfOpen: a gateway that takes requests and never answers is given up after Timeout.
func TestHalfOpen(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	url, _ := serve(t, memory.New(memory.Options{}), often)
	q, err := remote.New([]string{"http://" + frozen.Addr().String(), url}, remote.Options{Token: secret, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: time.Minute, Worker: "w"}); err != nil {
		t.Errorf("Claim with one gateway frozen: %v", err)
	}
}

// TestSilentGateway: a gateway that has not answered in time is asked last. So if one connection to
// the other gateway breaks, only the call that used it waits for the silent one.
func TestSilentGateway(t *testing.T) {
	silent, arrived := serveSilent(t)
	url, f := serveFaulty(t, memory.New(memory.Options{}))
	q := connect(t, silent, url)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := q.Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call of a silent gateway: got %v", err)
	}
	<-arrived
	f.loses.Store(1)
	ctx, cancel = context.WithCancel(t.Context())
	checked := make(chan error)
	go func() { checked <- q.Check(ctx) }()
	<-arrived // its answer was lost, so it asks the silent gateway
	next, end := context.WithTimeout(t.Context(), patience)
	defer end()
	if err := q.Check(next); err != nil || len(arrived) > 0 {
		t.Errorf("next call: %v, and %d more requests to the silent gateway, want none", err, len(arrived))
	}
	cancel()
	if err := <-checked; !errors.Is(err, context.Canceled) {
		t.Errorf("call whose answer was lost: got %v", err)
	}
}

// TestWaitAtSilentGateway: when a gateway does not answer in time, workers that wait there to be
// woken go to the next one at once.
func TestWaitAtSilentGateway(t *testing.T) {
	m := memory.New(memory.Options{})
	_, g := serve(t, m, often)
	waits := make(chan string, 10)
	handler := func(name string, isFrozen func(path string) bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/wait" {
				waits <- name
			}
			if isFrozen(r.URL.Path) {
				_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client hangs up
				<-r.Context().Done()
				return
			}
			g.ServeHTTP(w, r)
		})
	}
	first := httptest.NewServer(handler("first", func(path string) bool { return path != "/v1/sleep" }))
	defer first.Close()
	second := httptest.NewServer(handler("second", func(string) bool { return false }))
	defer second.Close()
	q := connect(t, first.URL, second.URL)
	if _, err := q.Sleep(t.Context(), "w", []string{"q"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	listened := make(chan error, 1)
	go func() { listened <- q.Listen(ctx, "w", []string{"q"}, func(driver.Signal) {}) }()
	if name := within(t, waits); name != "first" {
		t.Errorf("the worker waits at the %s gateway, want the first", name)
	}
	late, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := q.Check(late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call of a frozen gateway: got %v", err)
	}
	if name := within(t, waits); name != "second" {
		t.Errorf("the worker waits at the %s gateway, want the second", name)
	}
	stop()
	if err := <-listened; err != nil {
		t.Error(err)
	}
}

// TestRefusals: what a gateway refuses is an error of package queue where there is one.
func TestRefusals(t *testing.T) {
	m := memory.New(memory.Options{MaxPayload: 10})
	url, _ := serve(t, m, often)
	stranger, err := remote.New([]string{url}, remote.Options{Token: "wrong"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stranger.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: time.Minute, Worker: "w"})
	if _, ok := errors.AsType[*queue.SetupError](err); !ok {
		t.Errorf("Claim with a wrong token: got %v, want a SetupError", err)
	}
	if e, ok := errors.AsType[*remote.Error](err); !ok || e.Status != http.StatusUnauthorized {
		t.Errorf("Claim with a wrong token: got %v, want status 401", err)
	}
	long := job("k")
	long.Payload = []byte(`"12345678901"`)
	err = connect(t, url).Enqueue(t.Context(), nil, long)
	if i, ok := errors.AsType[*queue.InvalidError](err); !ok || i.Field != "Payload" {
		t.Errorf("payload that only the backend refuses: got %v, want an InvalidError of Payload", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := connect(t, url).Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Check with an ended context: got %v", err)
	}
}

// TestWorkersSurviveGateways: while one of two gateways is stopped, workers run every job whose
// enqueue was acknowledged, and none twice.
func TestWorkersSurviveGateways(t *testing.T) {
	extent.Long(t)
	const jobs, workers = 300, 10
	m := memory.New(memory.Options{})
	_, a := serve(t, m, often)
	first := httptest.NewServer(a)
	second, _ := serve(t, m, often)
	l := &ledger{runs: make(map[int64]int)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range workers {
		w := engine.Worker{
			Backend: connect(t, first.URL, second), Name: fmt.Sprint("w", i), Queues: []string{"q"}, Handler: queue.HandlerFunc(l.run), Concurrency: 2,
			Lease: 3 * time.Second, Logger: slog.New(slog.DiscardHandler),
		}
		running.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	client := connect(t, first.URL, second)
	var acknowledged []int64
	for i := range jobs {
		j := job("k")
		switch err := client.Enqueue(t.Context(), nil, j); {
		case err == nil:
			acknowledged = append(acknowledged, j.ID)
		case !errors.Is(err, queue.ErrUnknown):
			t.Fatalf("Enqueue of job %d: %v", i, err)
		}
		if i == jobs/2 {
			a.Drain()
			first.CloseClientConnections()
			first.Close()
		}
	}
	if len(acknowledged) < jobs-1 {
		t.Errorf("%d of %d enqueues acknowledged; want all but the one that was under way", len(acknowledged), jobs)
	}
	for end := time.Now().Add(patience); !l.hasRun(acknowledged) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	running.Wait()
	for _, id := range acknowledged {
		if l.runs[id] != 1 {
			t.Errorf("job %d ran %d times, want once", id, l.runs[id])
		}
	}
}

// ledger counts the runs of jobs.
type ledger struct {
	mu   sync.Mutex
	runs map[int64]int
}

func (l *ledger) run(_ context.Context, j *queue.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[j.ID]++
	return nil
}

// hasRun reports whether all these jobs have run.
func (l *ledger) hasRun(ids []int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if l.runs[id] == 0 {
			return false
		}
	}
	return true
}
