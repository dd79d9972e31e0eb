package health_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/health"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// wantAnswer checks what a probe gets.
func wantAnswer(t *testing.T, when string, h http.Handler, want string) {
	t.Helper()
	if got := strings.TrimSpace(probe(h, "/")); got != want {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

// fake is a queue whose Check and Claim do what a test says.
type fake struct {
	*queuetest.Queue
	check  func(ctx context.Context) error
	claim  func() error
	checks atomic.Int64
}

func newFake() *fake {
	return &fake{
		Queue: queuetest.New(queuetest.Options{}),
		check: func(context.Context) error { return nil },
		claim: func() error { return nil },
	}
}

func (f *fake) Check(ctx context.Context) error {
	f.checks.Add(1)
	return f.check(ctx)
}

func (f *fake) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if err := f.claim(); err != nil {
		return nil, err
	}
	return f.Queue.Claim(ctx, req)
}

// unchecked is a queue without capabilities.
type unchecked struct{ queue.Queue }

func TestMethods(t *testing.T) {
	for name, h := range map[string]http.Handler{"Live": health.Live(), "Ready": health.Ready(newFake())} {
		for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, "DELETE": 405} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
			if w.Code != want {
				t.Errorf("%s, %s: got %d, want %d", name, method, w.Code, want)
			}
		}
	}
}

// TestReasons: each problem has its reason, and no answer has an error of the database.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "200 ready"},
		{errors.New("dial 10.0.0.3: secret"), "503 not ready: the database cannot be asked"},
		{&queue.SetupError{Problem: "secret"}, "503 not ready: the database's schema does not fit this program"},
		{&queue.SetupError{Problem: "secret", Err: queue.ErrNewer}, "200 ready"},
		{context.DeadlineExceeded, "503 not ready: the database does not answer within 1s"},
	} {
		f := newFake()
		f.check = func(context.Context) error { return c.err }
		h := health.Ready(f)
		h.Logger = slog.New(slog.DiscardHandler)
		wantAnswer(t, "Check returns "+errText(c.err), h, c.want)
	}
	h := health.Ready(unchecked{newFake()})
	h.Logger = slog.New(slog.DiscardHandler)
	wantAnswer(t, "without a Checker", h, "503 not ready: the queue cannot be checked")
	wantAnswer(t, "behind middleware", health.Ready(queue.ChainEnqueuer(newFake())), "200 ready")
}

func errText(err error) string {
	if err == nil {
		return "nil"
	}
	return err.Error()
}

// TestLog: the log has the error when the answer changes, and not for each probe.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var log bytes.Buffer
		h := &health.Readiness{Queue: f, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		wantAnswer(t, "at first", h, "200 ready")
		f.check = func(context.Context) error { return errors.New("server is gone") }
		for range 3 {
			time.Sleep(2 * time.Second)
			wantAnswer(t, "when the database is down", h, "503 not ready: the database cannot be asked")
		}
		f.check = func(context.Context) error { return nil }
		time.Sleep(2 * time.Second)
		wantAnswer(t, "when it is back", h, "200 ready")
		got := log.String()
		if strings.Count(got, "\n") != 2 || strings.Count(got, `msg="errand: not ready"`) != 1 || !strings.Contains(got, "server is gone") ||
			!strings.Contains(got, `msg="errand: ready again"`) {
			t.Errorf("log: got\n%s\nwant one record for the change to 503, with its error, and one for the change back", got)
		}
	})
}

// TestOneQuestion: the database is asked at most once a second, one question at a time, also if it
// does not answer and the driver does not end with the context.
func TestOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h := &health.Readiness{Queue: f, Timeout: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)}
		for range 100 {
			wantAnswer(t, "at once", h, "200 ready")
		}
		if n := f.checks.Load(); n != 1 {
			t.Errorf("100 probes at once: the database was asked %d times, want once", n)
		}
		time.Sleep(2 * time.Second)
		stuck := make(chan struct{})
		f.check = func(context.Context) error { <-stuck; return nil }
		began := time.Now()
		const want = "503 not ready: the database does not answer within 3s"
		for range 100 {
			go wantAnswer(t, "while the driver is stuck", h, want)
		}
		wantAnswer(t, "while the driver is stuck", h, want)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("a probe of a stuck driver took %v, want the Timeout of 3s", took)
		}
		wantAnswer(t, "later", h, want)
		if took, n := time.Since(began), f.checks.Load(); took != 3*time.Second || n != 2 {
			t.Errorf("a probe after the Timeout of a stuck question: waited until %v, asked %d times; want no wait, and no further question", took, n)
		}
		synctest.Wait() // the others have their answers, too
		close(stuck)
		synctest.Wait()
		f.check = func(context.Context) error { return nil }
		time.Sleep(2 * time.Second)
		wantAnswer(t, "when it answers again", h, "200 ready")
	})
}

// TestGivenUp: a client that gives up changes nothing for the others.
func TestGivenUp(t *testing.T) {
	f := newFake()
	answered := make(chan struct{})
	f.check = func(context.Context) error { <-answered; return nil }
	h := health.Ready(f)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	if w.Body.Len() != 0 {
		t.Errorf("answer to a client that has given up: got %q, want none", w.Body)
	}
	close(answered)
	wantAnswer(t, "for the next client", h, "200 ready")
}

// TestClaims: the program is ready once its worker has claimed, and until claims have failed for
// fifteen seconds. A worker that does not claim is ready.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		watched := health.Watch(f)
		h := &health.Readiness{Queue: f, Workers: []*health.Watched{watched}, Logger: slog.New(slog.DiscardHandler)}
		claim := func() {
			t.Helper()
			_, _ = watched.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: time.Minute, Worker: "w"})
		}
		boom := errors.New("no right")
		f.claim = func() error { return boom }
		claim()
		wantAnswer(t, "before the first claim", h, "503 not ready: the worker has not claimed yet")
		f.claim = func() error { return nil }
		claim()
		wantAnswer(t, "after a claim", h, "200 ready")
		time.Sleep(time.Hour)
		wantAnswer(t, "an hour without claims", h, "200 ready")
		f.claim = func() error { return boom }
		claim()
		time.Sleep(14 * time.Second)
		claim()
		wantAnswer(t, "14 s after the first failure", h, "200 ready")
		if at, err := watched.LastClaim(); !errors.Is(err, boom) || time.Since(at) < time.Hour {
			t.Errorf("LastClaim after failures: got %v ago, error %v", time.Since(at), err)
		}
		time.Sleep(time.Second)
		wantAnswer(t, "15 s after the first failure", h, "503 not ready: the worker's claims fail")
		f.claim = func() error { return context.Canceled }
		claim()
		wantAnswer(t, "after a claim that was given up", h, "503 not ready: the worker's claims fail")
		f.claim = func() error { return &driver.SlowError{Job: new(queue.Job), Err: boom} }
		claim()
		wantAnswer(t, "after a claim that could not read a payload", h, "200 ready")
	})
}

// TestWatchedWorker: a worker on a Watched has all that its backend has.
func TestWatchedWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		watched := health.Watch(q)
		if _, ok := driver.As[driver.Waiter](watched); !ok {
			t.Fatal("As finds no Waiter in a Watched")
		}
		started := make(chan time.Time, 1)
		handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
			started <- time.Now()
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- engine.Worker{Backend: watched, Handler: handler}.Run(ctx) }()
		time.Sleep(time.Second)
		at := time.Now()
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k"}); err != nil {
			t.Fatal(err)
		}
		if late := (<-started).Sub(at); late > 10*time.Millisecond {
			t.Errorf("a sleeping worker on a Watched began %v after the Enqueue, want it woken", late)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
