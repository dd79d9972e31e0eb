package gateway_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// wantRefused checks that a request was refused because of a rate.
func wantRefused(t *testing.T, what string, w *httptest.ResponseRecorder, retryAfter string) {
	t.Helper()
	wantError(t, what, w, wire.CodeRate, "")
	if got := w.Header().Get("Retry-After"); got != retryAfter {
		t.Errorf("%s: Retry-After is %q, want %q", what, got, retryAfter)
	}
}

// TestMaxRequests: a client may send as many requests in a second as Options say, and others are
// not concerned.
func TestMaxRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := gateway.Token{Secret: secret + " either", Access: gateway.Access{Name: "other", May: gateway.Everything, Queues: []string{gateway.AllQueues}}}
		h := open(t, memory.New(memory.Options{}), gateway.Options{MaxRequests: 3, Tokens: append([]gateway.Token{other}, everything...)})
		defer h.Close()
		for range 2 {
			for range 3 {
				read[wire.CountsAnswer](t, send(h, "GET", "/v1/counts", nil))
			}
			wantRefused(t, "fourth request in a second", send(h, "POST", "/v1/claim", claimOne("w", 0)), "1")
			r := request(t.Context(), "GET", "/v1/counts", nil)
			r.Header.Set("Authorization", "Bearer "+other.Secret)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			read[wire.CountsAnswer](t, w)
			time.Sleep(time.Second)
		}
	})
}

// TestHeldCredit: requests to extend and settle go on for ten seconds' worth of requests beyond the
// rate. All others wait until the rate holds again.
func TestHeldCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, memory.New(memory.Options{}), gateway.Options{MaxRequests: 3})
		defer h.Close()
		for range 3 {
			read[wire.CountsAnswer](t, send(h, "GET", "/v1/counts", nil))
		}
		extend := wire.ExtendRequest{Jobs: []wire.Held{{ID: 1, Fence: 1, Worker: "w"}}, Lease: time.Minute}
		settle := wire.SettleRequest{Outcomes: []wire.Outcome{{ID: 1, Fence: 1, Worker: "w", Action: "done"}}}
		for range 15 {
			read[wire.ExtendAnswer](t, send(h, "POST", "/v1/extend", extend))
			read[wire.SettleAnswer](t, send(h, "POST", "/v1/settle", settle))
		}
		wantRefused(t, "settle 10 s beyond the rate", send(h, "POST", "/v1/settle", settle), "1")
		wantRefused(t, "claim 10 s beyond the rate", send(h, "POST", "/v1/claim", claimOne("w", 0)), "11")
		time.Sleep(time.Second)
		read[wire.SettleAnswer](t, send(h, "POST", "/v1/settle", settle))
		wantRefused(t, "claim after a second", send(h, "POST", "/v1/claim", claimOne("w", 0)), "10")
		time.Sleep(10 * time.Second)
		read[wire.ClaimAnswer](t, send(h, "POST", "/v1/claim", claimOne("w", 0)))
	})
}

// TestMaxEnqueued: a batch beyond the rate is taken, and the next one has to wait until the rate
// holds again.
func TestMaxEnqueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		h := open(t, q, gateway.Options{MaxEnqueued: 5})
		defer h.Close()
		jobs := func(n int) (in wire.EnqueueRequest) {
			for range n {
				in.Jobs = append(in.Jobs, wire.Job{Queue: "q", Kind: "k"})
			}
			return in
		}
		read[wire.EnqueueAnswer](t, send(h, "POST", "/v1/enqueue", jobs(20)))
		wantRefused(t, "a job after 4 s worth of jobs", send(h, "POST", "/v1/enqueue", jobs(1)), "4")
		time.Sleep(3100 * time.Millisecond)
		wantRefused(t, "a job 3.1 s later", send(h, "POST", "/v1/enqueue", jobs(1)), "1")
		if counts, err := q.Counts(t.Context()); err != nil || counts[0].Jobs != 20 {
			t.Errorf("after requests that were refused: %+v, %v; want 20 jobs", counts, err)
		}
		time.Sleep(100 * time.Millisecond)
		read[wire.EnqueueAnswer](t, send(h, "POST", "/v1/enqueue", jobs(1)))
	})
}

// overHandler returns a queue over requests that h answers without a network.
func overHandler(t *testing.T, h http.Handler) *remote.Queue {
	t.Helper()
	q, err := remote.New([]string{"http://gateway"}, remote.Options{Token: secret, Client: &http.Client{Transport: direct{h}}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestRetryAfter: backend/remote sends a request again when the gateway says, or a proxy before it.
// If that is too late for the caller, the error tells it.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, memory.New(memory.Options{}), gateway.Options{MaxRequests: 1, MaxEnqueued: 1})
		defer h.Close()
		q, begun := overHandler(t, h), time.Now()
		for i := range 3 {
			if err := q.Check(t.Context()); err != nil || time.Since(begun) != time.Duration(i)*time.Second {
				t.Fatalf("call %d at a request a second: %v after %v", i, err, time.Since(begun))
			}
		}
		if err := q.Enqueue(t.Context(), nil, jobsOf(20)...); err != nil {
			t.Fatal(err)
		}
		err := q.Enqueue(t.Context(), nil, &queue.Job{Queue: "q", Kind: "k"})
		if e, ok := errors.AsType[*remote.Error](err); !ok || e.RetryAfter != 19*time.Second {
			t.Errorf("a job 1 s after 20 s worth of jobs: got %v, want a RetryAfter of 19s", err)
		}
		refused := false
		begun = time.Now()
		err = overHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !refused {
				refused = true
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			h.ServeHTTP(w, r)
		})).Check(t.Context())
		if err != nil || time.Since(begun) != 7*time.Second {
			t.Errorf("call that a proxy refuses for 7 s: %v after %v", err, time.Since(begun))
		}
	})
}

func jobsOf(n int) []*queue.Job {
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = &queue.Job{Queue: "q", Kind: "k"}
	}
	return jobs
}
