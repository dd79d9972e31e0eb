package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const secret = "a secret that only tests know"

// everything lets the secret's bearer do everything.
var everything = []gateway.Token{{Secret: secret, Access: gateway.Access{Name: "all", Queues: []string{gateway.AllQueues}, May: gateway.Everything}}}

// open returns a gateway of q, which the caller closes.
func open(t testing.TB, q queue.Queue, o gateway.Options) *gateway.Handler {
	t.Helper()
	if o.Tokens == nil && o.Authorize == nil {
		o.Tokens = everything
	}
	o.Logger = slog.New(slog.DiscardHandler)
	h, err := gateway.New(q, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// send sends a request with the secret, and returns the answer. body is JSON text or a value.
func send(h http.Handler, method, path string, body any) *httptest.ResponseRecorder {
	return sendIn(context.Background(), h, method, path, body)
}

func sendIn(ctx context.Context, h http.Handler, method, path string, body any) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(ctx, method, path, body))
	return w
}

func request(ctx context.Context, method, path string, body any) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(text(body)))
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// text returns the text of a body.
func text(body any) string {
	switch b := body.(type) {
	case nil:
		return ""
	case string:
		return b
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// read returns the answer as a T. It is an error if the status is not 200.
func read[T any](t testing.TB, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return v
}

// wantError checks that the answer is that error, about that field.
func wantError(t testing.TB, what string, w *httptest.ResponseRecorder, code, field string) {
	t.Helper()
	var got wire.ErrorAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Errorf("%s: status %d and no JSON: %s", what, w.Code, w.Body)
		return
	}
	if got.Error.Code != code || w.Code != wire.Status[code] || got.Error.Field != field || got.Error.Message == "" {
		t.Errorf("%s: got status %d and %+v; want %d, code %q, field %q, and a message", what, w.Code, got.Error, wire.Status[code], code, field)
	}
}

func enqueue(t testing.TB, q queue.Queue, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Queue: "q", Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
}

// claimOne is a claim of a job of the queue "q".
func claimOne(worker string, wait time.Duration) wire.ClaimRequest {
	return wire.ClaimRequest{Queues: []string{"q"}, Worker: worker, Wait: wait}
}

// counting is a queue in memory that counts the calls that are statements in a database.
type counting struct {
	*memory.Queue
	calls    atomic.Int64
	claims   atomic.Int64
	failing  atomic.Int64 // how many calls of Sleep are to fail
	reclaims atomic.Int64
	moves    atomic.Int64 // calls of Reassign
	reports  atomic.Int64 // calls of ReportWorkers, which are not among calls
	left     bool         // Reassign is to fail
	lies     bool         // Reassign is to fail after it has succeeded
	err      error        // of each claim, if not nil
	before   func()       // called before each claim, if not nil
	found    func()       // called after each claim that finds jobs, if not nil
	after    func()       // called after each claim, before it returns, if not nil
}

func newCounting() *counting { return &counting{Queue: memory.New(memory.Options{})} }

func (c *counting) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	c.calls.Add(1)
	c.claims.Add(1)
	if c.before != nil {
		c.before()
	}
	if c.err != nil {
		return nil, c.err
	}
	jobs, err := c.Queue.Claim(ctx, req)
	if c.found != nil && len(jobs) > 0 {
		c.found()
	}
	if c.after != nil {
		c.after()
	}
	return jobs, err
}

func (c *counting) Sleep(ctx context.Context, worker string, queues []string) (time.Duration, error) {
	c.calls.Add(1)
	if c.failing.Add(-1) >= 0 {
		return 0, errors.New("no connection")
	}
	return c.Queue.Sleep(ctx, worker, queues)
}

func (c *counting) Reassign(ctx context.Context, workers []string, jobs ...*queue.Job) ([]*queue.Job, error) {
	c.calls.Add(1)
	c.moves.Add(1)
	if c.left {
		return nil, errors.New("no connection")
	}
	if c.lies {
		copies := make([]*queue.Job, len(jobs))
		for i, j := range jobs {
			copies[i] = &queue.Job{ID: j.ID, Fence: j.Fence, Worker: j.Worker}
		}
		_, err := c.Queue.Reassign(ctx, workers, copies...)
		return nil, errors.Join(queue.ErrUnknown, err)
	}
	return c.Queue.Reassign(ctx, workers, jobs...)
}

func (c *counting) Reclaim(ctx context.Context, limit int) ([]*queue.Job, error) {
	c.calls.Add(1)
	c.reclaims.Add(1)
	return c.Queue.Reclaim(ctx, limit)
}

func (c *counting) FireSchedules(ctx context.Context) (int, time.Duration, error) {
	c.calls.Add(1)
	return c.Queue.FireSchedules(ctx)
}

// direct calls a handler without a network. A request ends with its context.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	answered := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		clone := r.Clone(r.Context())
		clone.Body = io.NopCloser(bytes.NewReader(body))
		d.ServeHTTP(w, clone)
		answered <- w.Result()
	}()
	select {
	case answer := <-answered:
		return answer, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func (c *counting) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	c.reports.Add(1)
	if c.failing.Add(-1) >= 0 {
		return errors.New("no connection")
	}
	return c.Queue.ReportWorkers(ctx, reports...)
}
