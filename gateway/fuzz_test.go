package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// FuzzHandler: no request makes the gateway panic, fail, or answer with anything but JSON. A
// request that is refused has changed nothing, and what one has written can be read.
func FuzzHandler(f *testing.F) {
	for route, body := range paths {
		method, path, _ := strings.Cut(route, " ")
		f.Add(method, path, "application/json", text(body))
	}
	for _, body := range []string{
		`{"jobs": [{"kind": "k", "scheduled_at": "9999-12-31T23:59:59-23:59", "payload": [1e999]}]}`,
		`{"jobs": [{"kind": "k", "scheduled_at": "0000-01-01T00:00:00+23:59", "delay_ns": null}]}`,
		`{"jobs": [{"kind": "k"}, {"kind": "k", "key": "a", "on_duplicate": "replace", "headers": {"": ""}}], "idempotency_key": "a"}`,
		`{"jobs": [{"kind": "k", "kind": "l", "Kind": "m"}]}`,
	} {
		f.Add("POST", "/v1/enqueue", "application/json", body)
	}
	f.Add("POST", "/v1/settle", "application/json", `{"outcomes": [{"id": 1, "fence": 1, "worker": "w", "action": "retry", "delay_ns": 1, "error": "\u0000", "stack": "s"}]}`)
	f.Add("POST", "/v1/settle", "application/json", `{"outcomes": [{"id": 1, "fence": 1, "worker": "w", "action": "done", "output": {"a": 1, "a": 2}}]}`)
	f.Add("POST", "/v1/cancel", "application/json", `{"queue": "q", "status": "running"}`)
	f.Add("GET", "/v1/jobs?queue=q&limit=1&before=2&created_from=2026-01-01T00:00:00Z", "", "")
	f.Fuzz(func(t *testing.T, method, path, media, body string) {
		q := fuzzedQueue(t)
		h := open(t, q, gateway.Options{MaxBody: 1 << 20})
		defer h.Close()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://gateway"+path, strings.NewReader(body))
		if err != nil || r.Host != "gateway" {
			t.Skip("not sent by any client")
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", media)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // it may ask to wait
		defer cancel()
		before := stateOf(t, q)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(ctx))
		if w.Code/100 == 3 || ctx.Err() != nil {
			return
		}
		if media := w.Header().Get("Content-Type"); media != "application/json" || w.Code >= 500 {
			t.Errorf("%s %s: status %d with Content-Type %q: %s", method, path, w.Code, media, w.Body)
		}
		if after := stateOf(t, q); w.Code >= 400 && after != before {
			t.Errorf("%s %s: status %d, but it has changed the queue from\n%s\nto\n%s", method, path, w.Code, before, after)
		}
		for _, path := range []string{"/v1/jobs", "/v1/workers", "/v1/counts"} {
			if w := send(h, "GET", path, nil); w.Code != http.StatusOK {
				t.Errorf("%s after %s %s: status %d: %s", path, r.Method, r.URL.Path, w.Code, w.Body)
			}
		}
	})
}

// fuzzedQueue returns a queue with two jobs, of which worker w holds the first, with fence 1.
func fuzzedQueue(t *testing.T) *memory.Queue {
	t.Helper()
	q := memory.New(memory.Options{})
	enqueue(t, q, "k", "k")
	req := queue.ClaimRequest{Queues: []string{"q"}, Limit: 1, Lease: time.Hour, Worker: "w"}
	if held, err := q.Claim(t.Context(), req); err != nil || len(held) != 1 || held[0].Fence != 1 {
		t.Fatalf("claim: %+v, %v; want a job with fence 1", held, err)
	}
	return q
}

// stateOf returns what the queue has: jobs, workers and results.
func stateOf(t *testing.T, q *memory.Queue) string {
	t.Helper()
	jobs, _, err := q.Jobs(t.Context(), queue.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	workers, err := q.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := struct {
		Jobs    []queue.Record
		Workers []driver.WorkerInfo
		Results []queue.Result
	}{Jobs: jobs}
	for _, w := range workers {
		state.Workers = append(state.Workers, w.WorkerInfo)
	}
	for _, j := range jobs {
		r, _, err := q.Result(t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		state.Results = append(state.Results, r)
	}
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatalf("%+v: %v", state, err)
	}
	return string(text)
}
