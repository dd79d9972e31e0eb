package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestIdleClients counts for idleFor, after the clients have started: workers claim twice before
// they sleep. One client is counted for oneFor, which is cheap: the pauses between calls are drawn
// at random, and the counts of two minutes vary by ten of 84 calls (12 runs: 79 to 90).
const (
	starting = time.Minute
	idleFor  = 2 * time.Minute
	oneFor   = 10 * idleFor
)

// TestIdleClients: a thousand clients that wait for jobs cost the database what one costs. Their
// reports cost one call a second, also those of all that stop at once.
func TestIdleClients(t *testing.T) {
	extent.Long(t)
	for name, wait := range map[string]func(context.Context, *testing.T, http.Handler, int){"claims": longPolls, "workers": workers} {
		t.Run(name, func(t *testing.T) {
			one, _ := callsOfIdle(t, 1, oneFor, wait)
			one = one / int64(oneFor/idleFor)
			many, reports := callsOfIdle(t, 1000, idleFor, wait)
			t.Logf("%d calls in %v for one client, %d for 1,000", one, idleFor, many)
			if most := one * 5 / 4; many > most || one == 0 {
				t.Errorf("1,000 idle clients: %d calls in %v, want at most %d: one client costs %d", many, idleFor, most, one)
			}
			if perSecond := float64(many) / idleFor.Seconds(); perSecond > 1 {
				t.Errorf("1,000 idle clients: %.2f calls a second, want at most 1", perSecond)
			}
			if most := int64(idleFor/time.Second) + 10; reports > most || reports == 0 && name == "workers" {
				t.Errorf("1,000 idle clients: %d calls with reports in %v, and when they stop; want at most %d", reports, idleFor, most)
			}
		})
	}
}

// callsOfIdle returns how many calls of the backend n idle clients cost in a period.
func callsOfIdle(t *testing.T, n int, period time.Duration, wait func(context.Context, *testing.T, http.Handler, int)) (calls, reports int64) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		h := open(t, q, gateway.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), starting+period)
		var clients sync.WaitGroup
		for i := range n {
			clients.Go(func() { wait(ctx, t, h, i) })
		}
		time.Sleep(starting)
		before, reportsBefore := q.calls.Load(), q.reports.Load()
		clients.Wait()
		calls, reports = q.calls.Load()-before, q.reports.Load()-reportsBefore
		cancel()
		h.Close()
	})
	return calls, reports
}

// longPolls claims again and again, each time for as long as the gateway lets a client wait.
func longPolls(ctx context.Context, t *testing.T, h http.Handler, i int) {
	for ctx.Err() == nil {
		w := sendIn(ctx, h, "POST", "/v1/claim", claimOne(fmt.Sprint("w", i), time.Hour))
		if ctx.Err() == nil && w.Code != http.StatusOK {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	}
}

// workers runs a Worker over backend/remote.
func workers(ctx context.Context, t *testing.T, h http.Handler, i int) {
	q, err := remote.New([]string{"http://gateway"}, remote.Options{Token: secret, Client: &http.Client{Transport: direct{h}}})
	if err != nil {
		t.Error(err)
		return
	}
	err = engine.Worker{Backend: q, Name: fmt.Sprint("w", i), Queues: []string{"q"}, Handler: fails, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
	if err != nil {
		t.Error(err)
	}
}

var fails = queue.HandlerFunc(func(context.Context, *queue.Job) error { return errors.New("boom") })

// TestOrderOfClients: jobs go to the clients in the order in which they came, as soon as they are
// due, and under the name of the client's worker.
func TestOrderOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		h := open(t, q, gateway.Options{})
		defer h.Close()
		type got struct {
			client int
			jobs   []wire.Claimed
			at     time.Time
		}
		answers := make(chan got, 3)
		for i := range 3 {
			go func() {
				w := send(h, "POST", "/v1/claim", claimOne(fmt.Sprint("w", i), time.Hour))
				answers <- got{i, read[wire.ClaimAnswer](t, w).Jobs, time.Now()}
			}()
			synctest.Wait()
		}
		for i := range 3 {
			time.Sleep(time.Second)
			begun := time.Now()
			enqueue(t, q, "k")
			a := <-answers
			if a.client != i || len(a.jobs) != 1 || a.jobs[0].Worker != fmt.Sprint("w", i) || a.at.Sub(begun) > time.Millisecond {
				t.Errorf("job %d: got %+v after %v; want it at once at client %d", i, a.jobs, a.at.Sub(begun), i)
			}
		}
	})
}

// TestClaimWaits: a claim returns when its wait is over, and finds a job that becomes due
// meanwhile.
func TestClaimWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		h := open(t, q, gateway.Options{})
		defer h.Close()
		for _, c := range []struct{ wait, want time.Duration }{{0, 0}, {time.Second, time.Second}, {time.Hour, 30 * time.Second}} {
			begun := time.Now()
			a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", c.wait)))
			if took := time.Since(begun); took != c.want || len(a.Jobs) != 0 || a.Jobs == nil {
				t.Errorf("claim that waits for %v: got %v after %v, want [] after %v", c.wait, a.Jobs, took, c.want)
			}
		}
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Queue: "q", Kind: "k", Delay: 7 * time.Second}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", time.Minute)))
		if took := time.Since(begun); len(a.Jobs) != 1 || took != 7*time.Second {
			t.Errorf("claim of a job that is due in 7 s: got %v after %v", a.Jobs, took)
		}
		if ends := time.Until(a.Jobs[0].LeaseEnds); ends != 30*time.Second {
			t.Errorf("lease of a claim that names none: got %v, want 30s", ends)
		}
	})
}

// TestHangUp: what was claimed for a client that has hung up is released at once, and costs no
// attempt.
func TestHangUp(t *testing.T) {
	for name, hangUp := range map[string]func(ctx context.Context, cancel func(), h http.Handler, q *counting){
		"during the claim": func(ctx context.Context, cancel func(), h http.Handler, q *counting) {
			q.before = cancel
			sendIn(ctx, h, "POST", "/v1/claim", claimOne("w", time.Minute))
		},
		"before the answer is written": func(ctx context.Context, _ func(), h http.Handler, _ *counting) {
			h.ServeHTTP(deaf{httptest.NewRecorder()}, request(ctx, "POST", "/v1/claim", claimOne("w", 0)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newCounting()
				h := open(t, q, gateway.Options{})
				defer h.Close()
				enqueue(t, q, "k")
				ctx, cancel := context.WithCancel(t.Context())
				hangUp(ctx, cancel, h, q)
				q.before = nil
				a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("v", 0)))
				if len(a.Jobs) != 1 || a.Jobs[0].Attempt != 1 || a.Jobs[0].Worker != "v" {
					t.Errorf("claim after a client has hung up: got %+v, want the job in its first attempt", a.Jobs)
				}
				cancel()
			})
		})
	}
}

// deaf is a client that has hung up: nothing can be written to it.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

// TestPlainWriter: a client behind a middleware whose ResponseWriter cannot flush keeps its jobs.
func TestPlainWriter(t *testing.T) {
	q := memory.New(memory.Options{})
	h := open(t, q, gateway.Options{})
	defer h.Close()
	enqueue(t, q, "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(plain{w}, request(t.Context(), "POST", "/v1/claim", claimOne("w", 0)))
	held := read[wire.ClaimAnswer](t, w).Jobs
	if len(held) != 1 {
		t.Fatalf("claim: got %d jobs, want 1", len(held))
	}
	extend := wire.ExtendRequest{Jobs: []wire.Held{wire.HeldOf(&held[0].Job)}}
	if a := read[wire.ExtendAnswer](t, send(h, "POST", "/v1/extend", extend)); len(a.Lost) != 0 {
		t.Errorf("extend after an answer that could not be flushed: lost %+v, want none", a.Lost)
	}
}

// plain is a ResponseWriter that can do nothing more.
type plain struct{ http.ResponseWriter }

// TestSleepFails: while the backend's Sleep fails, the gateway polls for a client that waits.
func TestSleepFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		q.failing.Store(100)
		h := open(t, q, gateway.Options{})
		defer h.Close()
		read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", 20*time.Second)))
		if n := q.claims.Load(); n < 3 || n > 6 {
			t.Errorf("client that waits for 20 s while Sleep fails: %d claims, want one each 5 s", n)
		}
	})
}

// TestSlowPayload: that a payload was not read in time is told only to the client that it was for.
func TestSlowPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		h := open(t, q, gateway.Options{})
		defer h.Close()
		first, second := make(chan *httptest.ResponseRecorder, 1), make(chan *httptest.ResponseRecorder, 1)
		q.before = func() {
			if time.Sleep(time.Second); q.claims.Load() == 3 {
				q.err = nil
			}
		}
		q.err = &driver.SlowError{Job: &queue.Job{ID: 7}, Delay: time.Second, Err: errors.New("slow")}
		go func() { first <- send(h, "POST", "/v1/claim", claimOne("first", 0)) }()
		time.Sleep(time.Millisecond)
		go func() { second <- send(h, "POST", "/v1/claim", claimOne("second", time.Minute)) }()
		go func() { second <- send(h, "POST", "/v1/claim", claimOne("third", time.Minute)) }()
		time.Sleep(time.Second)
		wantError(t, "client of a slow payload", <-first, wire.CodeSlow, "")
		time.Sleep(time.Second)
		wantError(t, "next client of a slow payload", <-second, wire.CodeSlow, "")
		read[wire.ClaimAnswer](t, <-second)
	})
}

// TestLongPrune: expired jobs are reclaimed while the backend prunes.
func TestLongPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &pruning{newCounting()}
		h := open(t, q, gateway.Options{})
		defer h.Close()
		time.Sleep(61 * time.Second) // the prune begins after a minute, and takes 10 s
		before := q.reclaims.Load()
		time.Sleep(8 * time.Second)
		if n := q.reclaims.Load() - before; n < 1 {
			t.Error("no job was reclaimed during 8 s of a prune, want it each 5 s")
		}
	})
}

// pruning is a queue whose Prune takes as long as it may.
type pruning struct{ *counting }

func (pruning) Prune(ctx context.Context) (int, bool, error) {
	<-ctx.Done()
	return 0, false, ctx.Err()
}

// TestDrain: clients that wait are told to connect elsewhere, new claims are refused, and what is
// held can be settled.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		h := open(t, q, gateway.Options{})
		defer h.Close()
		enqueue(t, q, "k")
		held := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", 0))).Jobs[0]
		waiting := map[string]any{"/v1/claim": claimOne("w", time.Minute), "/v1/wait": wire.WaitRequest{Queues: []string{"q"}, Worker: "w"}}
		answers := make(chan *httptest.ResponseRecorder, len(waiting))
		for path, body := range waiting {
			go func() { answers <- send(h, "POST", path, body) }()
		}
		synctest.Wait()
		begun := time.Now()
		h.Drain()
		for range waiting {
			w := <-answers
			wantError(t, "waiting client", w, wire.CodeDraining, "")
			if w.Header().Get("Retry-After") == "" || time.Since(begun) > 0 {
				t.Errorf("waiting client of a gateway that drains: got %v after %v; want Retry-After, at once", w.Header(), time.Since(begun))
			}
		}
		for path, body := range waiting {
			wantError(t, "new client of "+path, send(h, "POST", path, body), wire.CodeDraining, "")
		}
		wantError(t, "check", send(h, "GET", "/v1/check", nil), wire.CodeDraining, "")
		o := wire.SettleRequest{Outcomes: []wire.Outcome{{ID: held.ID, Fence: held.Fence, Worker: held.Worker, Action: "done"}}}
		if a := read[wire.SettleAnswer](t, send(h, "POST", "/v1/settle", o)); len(a.Lost) != 0 {
			t.Errorf("settle on a gateway that drains: lost %v, want none", a.Lost)
		}
	})
}

// TestListenersOneByOne: a wake-up wakes one worker, and the next one only if a claim finds jobs,
// or if the first does not claim.
func TestListenersOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		h := open(t, q, gateway.Options{})
		defer h.Close()
		woken := make(chan int, 4)
		read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", 0)))
		read[wire.SleepAnswer](t, send(h, "POST", "/v1/sleep", wire.SleepRequest{Queues: []string{"q"}, Worker: "w"}))
		for i := range 4 {
			go func() {
				w := send(h, "POST", "/v1/wait", wire.WaitRequest{Queues: []string{"q"}, Worker: fmt.Sprint("w", i)})
				if read[wire.WaitAnswer](t, w).Woken {
					woken <- i
				}
			}()
			synctest.Wait()
		}
		want := func(when string, i ...int) {
			t.Helper()
			synctest.Wait()
			for _, i := range i {
				if len(woken) == 0 || <-woken != i {
					t.Fatalf("%s: worker %d was not woken", when, i)
				}
			}
			if len(woken) > 0 {
				t.Fatalf("%s: worker %d was woken", when, <-woken)
			}
		}
		claim := func(n int) {
			t.Helper()
			if a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", 0))); len(a.Jobs) != n {
				t.Fatalf("claim: got %d jobs, want %d", len(a.Jobs), n)
			}
		}
		want("before a job")
		enqueue(t, q, "k")
		want("after a job", 0)
		claim(1)
		want("after a claim that found a job", 1)
		claim(0)
		time.Sleep(time.Second)
		want("after a claim that found none")
		read[wire.SleepAnswer](t, send(h, "POST", "/v1/sleep", wire.SleepRequest{Queues: []string{"q"}, Worker: "w"}))
		enqueue(t, q, "k")
		want("after the next job", 2)
		time.Sleep(time.Second)
		want("when that worker does not claim", 3)
	})
}

// TestPausedKinds: a client gets no jobs of paused kinds, and gets them as soon as they are
// resumed.
func TestPausedKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "a"}, true); err != nil {
			t.Fatal(err)
		}
		h := open(t, q, gateway.Options{})
		defer h.Close()
		synctest.Wait()
		enqueue(t, q, "a", "b")
		req := claimOne("w", 0)
		req.Kinds, req.Limit = []string{"a", "b"}, 10
		if a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", req)); len(a.Jobs) != 1 || a.Jobs[0].Kind != "b" {
			t.Fatalf("claim of a paused kind and another: got %+v, want the other", a.Jobs)
		}
		req.Kinds, req.Wait = []string{"a"}, 20*time.Second
		time.AfterFunc(7*time.Second, func() {
			if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "a"}, false); err != nil {
				t.Error(err)
			}
		})
		begun := time.Now()
		a := read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", req))
		if took := time.Since(begun); len(a.Jobs) != 1 || took != 7*time.Second {
			t.Errorf("claim of a kind that is resumed after 7 s: got %+v after %v", a.Jobs, took)
		}
	})
}

// TestLateClient: a claim that comes back empty is no answer for a client that came after it began,
// whatever other clients do meanwhile.
func TestLateClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newCounting()
		h := open(t, q, gateway.Options{})
		defer h.Close()
		leaving, leave := context.WithCancel(t.Context())
		late := make(chan []wire.Claimed, 1)
		q.after = func() {
			if q.claims.Load() != 3 { // two before the first client sleeps, and that of the wake-up
				return
			}
			leave()
			time.Sleep(time.Millisecond)
			enqueue(t, q, "a", "b")
			go func() { late <- read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("late", 0))).Jobs }()
			time.Sleep(time.Millisecond)
		}
		go send(h, "POST", "/v1/claim", claimOne("first", time.Minute))
		synctest.Wait()
		go sendIn(leaving, h, "POST", "/v1/claim", claimOne("leaves", time.Minute))
		synctest.Wait()
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Queue: "q", Kind: "k", Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if jobs := <-late; len(jobs) != 1 {
			t.Errorf("client that came while an empty claim was under way: got %d jobs, want the second of two", len(jobs))
		}
	})
}

// claimLog is a queue that keeps the requests of its claims.
type claimLog struct {
	*memory.Queue
	requests chan queue.ClaimRequest
}

func (q claimLog) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	q.requests <- req
	return q.Queue.Claim(ctx, req)
}

// TestClaimsAreShared: a gateway tells the backend that its clients may claim elsewhere, too.
func TestClaimsAreShared(t *testing.T) {
	q := claimLog{memory.New(memory.Options{}), make(chan queue.ClaimRequest, 10)}
	h := open(t, q, gateway.Options{})
	defer h.Close()
	read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", 0)))
	if req := <-q.requests; req.Worker != "w" || !req.Shared {
		t.Errorf("claim of a client: %+v, want Shared", req)
	}
}
