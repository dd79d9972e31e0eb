package remote_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// deafProxy passes requests on to a gateway. While isDeaf, it lets those that wait for jobs wait
// for a moment, and then refuses them.
type deafProxy struct {
	gateway http.Handler
	isDeaf  atomic.Bool
	waiting atomic.Int64 // requests that it lets wait
	claims  atomic.Int64 // that do not only look again
}

func (p *deafProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/claim" {
		body, err := io.ReadAll(r.Body)
		if err == nil && !bytes.Contains(body, []byte(`"poll":true`)) {
			p.claims.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if r.URL.Path != "/v1/wait" || !p.isDeaf.Load() {
		p.gateway.ServeHTTP(w, r)
		return
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	select {
	case <-time.After(50 * time.Millisecond):
	case <-r.Context().Done():
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// TestListenFails: a proxy refuses the requests that wait for jobs, and no others. CheckListen says
// so until they work again, and meanwhile each claim goes to the gateway.
func TestListenFails(t *testing.T) {
	t.Parallel()
	_, g := serve(t, memory.New(memory.Options{}), often)
	p := &deafProxy{gateway: g}
	p.isDeaf.Store(true)
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	q := connect(t, s.URL)
	checker, ok := driver.As[driver.Waiter](queue.Queue(q))
	if !ok {
		t.Fatal("a remote queue is no ListenChecker")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended, woken := make(chan error, 1), make(chan struct{}, 1000)
	go func() {
		ended <- q.Listen(ctx, "w", []string{"q"}, func(s driver.Signal) {
			if s.Jobs {
				woken <- struct{}{}
			}
		})
	}()
	sleep := func() {
		t.Helper()
		if _, err := q.Sleep(ctx, "w", []string{"q"}); err != nil {
			t.Fatal(err)
		}
	}
	for err := error(nil); err == nil; err = checker.CheckListen("w") {
		sleep()
		within(t, woken)
	}
	if err := checker.CheckListen("w"); !strings.Contains(err.Error(), "503") {
		t.Errorf("CheckListen: got %v, want the status 503", err)
	}
	if err := checker.CheckListen("another"); err != nil {
		t.Errorf("CheckListen of another worker: %v", err)
	}
	claim := func() {
		t.Helper()
		req := queue.ClaimRequest{Queues: []string{"q"}, Worker: "w", Limit: 1, Lease: time.Minute}
		if jobs, err := q.Claim(ctx, req); err != nil || len(jobs) != 0 {
			t.Fatalf("Claim: got %d jobs, error %v; want none", len(jobs), err)
		}
	}
	sleep()
	for p.waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	before := p.claims.Load()
	claim()
	claim()
	if n := p.claims.Load() - before; n != 2 {
		t.Errorf("%d of 2 claims ask the backend while the gateway wakes nobody", n)
	}
	p.isDeaf.Store(false)
	for checker.CheckListen("w") != nil {
		sleep()
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := within(t, ended); err != nil {
		t.Error(err)
	}
}
