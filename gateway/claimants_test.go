package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/remote"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/queue"
)

// records are log records as JSON lines.
type records struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *records) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// of returns the records with that message, each as "level job kind queue attempt worker error".
func (r *records) of(msg string) (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.text.String()) {
		var rec map[string]any
		if json.Unmarshal([]byte(line), &rec) == nil && rec["msg"] == msg {
			found = append(found, fmt.Sprintf("%v %v %v %v %v %v %v", rec["level"], rec["job"], rec["kind"], rec["queue"], rec["attempt"], rec["worker"], rec["error"]))
		}
	}
	return found
}

// foreign is a worker that speaks the documented protocol over net/http, without package remote.
type foreign struct {
	*testing.T
	client *http.Client
}

// post sends a request, and returns the answer.
func (f foreign) post(path, body string) (answer map[string]any) {
	f.Helper()
	req, err := http.NewRequest("POST", "http://gateway"+path, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(text, &answer) != nil {
		f.Fatalf("%s: status %d, %s, error %v", path, resp.StatusCode, text, err)
	}
	return answer
}

// claim claims a job, and returns what identifies the claim.
func (f foreign) claim() (held string) {
	f.Helper()
	jobs, _ := f.post("/v1/claim", `{"queues": ["q"], "worker": "python-1", "limit": 1, "lease_ns": 20000000000}`)["jobs"].([]any)
	if len(jobs) != 1 {
		f.Fatalf("claimed %d jobs, want 1", len(jobs))
	}
	job, _ := jobs[0].(map[string]any)
	return fmt.Sprintf(`"id": %.0f, "fence": %.0f, "worker": "python-1"`, job["id"], job["fence"])
}

// serveClaimants serves a gateway of q in memory, and returns a client of it.
func serveClaimants(t *testing.T, q queue.Queue) (*http.Client, *records, func()) {
	t.Helper()
	log := new(records)
	h, err := gateway.New(q, gateway.Options{Tokens: everything, Logger: slog.New(slog.NewJSONHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	p := servePipes(t, h)
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(t, ""), nil }}
	return &http.Client{Transport: transport}, log, func() {
		h.Close()
		transport.CloseIdleConnections()
	}
}

// TestClaimants: a worker of a different language, which follows the documented rules and does not
// report itself, is among the live workers. Its dead jobs are logged and counted as by a Worker:
// one that it has made dead, one whose last attempt has failed, and one whose lease has expired.
func TestClaimants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		client, log, stop := serveClaimants(t, q)
		f := foreign{t, client}
		for range 5 {
			if err := q.Enqueue(t.Context(), nil, &queue.Job{Queue: "q", Kind: "mail", MaxAttempts: 1}); err != nil {
				t.Fatal(err)
			}
		}
		f.post("/v1/settle", `{"outcomes": [{`+f.claim()+`, "action": "done"}]}`)
		f.post("/v1/settle", `{"outcomes": [{`+f.claim()+`, "action": "dead", "error": "no such user"}]}`)
		f.post("/v1/settle", `{"outcomes": [{`+f.claim()+`, "action": "retry", "attempt": 1, "error": "timeout"}]}`)
		f.claim() // and is not heard of for a lease
		time.Sleep(5 * time.Second)
		workers, err := q.Workers(t.Context())
		if err != nil || len(workers) != 1 || workers[0].Name != "python-1" || workers[0].Busy != 1 || fmt.Sprint(workers[0].Queues) != "[q]" {
			t.Errorf("workers: %+v, error %v; want python-1 alone, with one job of the queue q", workers, err)
		}
		answer, err := explain.Job(t.Context(), q, explain.Question{ID: 5})
		if err != nil || len(answer.Reasons) == 0 || answer.Reasons[0].ID == "no-worker" {
			t.Errorf("explain: %+v, error %v; want no no-worker", answer, err)
		}
		time.Sleep(30 * time.Second)
		want := []string{
			"ERROR 2 mail q 1 python-1 no such user", "ERROR 3 mail q 1 python-1 timeout",
		}
		got := log.of("errand: job is dead")
		if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || !strings.HasPrefix(got[2], "ERROR 4 mail q 1 gateway-") {
			t.Errorf("logged as dead: %q, want %q and the job 4 by the gateway", got, want)
		}
		stop()
		stats, err := q.Stats(t.Context(), queue.StatsFilter{Queue: "q", Kind: "mail"})
		if err != nil || len(stats) != 1 || stats[0].Done != 1 || stats[0].Dead != 3 || stats[0].Lost != 1 {
			t.Errorf("statistics: %+v, error %v; want 1 done, 3 dead, 1 lost", stats, err)
		}
	})
}

// TestClaimantsDeaths: a flood of dead jobs of a claimant has few records of its own.
func TestClaimantsDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		client, log, stop := serveClaimants(t, q)
		f := foreign{t, client}
		for range 100 {
			if err := q.Enqueue(t.Context(), nil, &queue.Job{Queue: "q", Kind: "mail"}); err != nil {
				t.Fatal(err)
			}
			f.post("/v1/settle", `{"outcomes": [{`+f.claim()+`, "action": "dead", "error": "no such user"}]}`)
		}
		if n := len(log.of("errand: job is dead")); n != 5 {
			t.Errorf("%d records of 100 dead jobs in one second, want 5", n)
		}
		time.Sleep(21 * time.Second)
		if n := len(log.of("errand: job is dead, similar records left out")); n != 1 {
			t.Errorf("%d summaries, want 1", n)
		}
		stop()
	})
}

// TestClaimantReportsItself: a remote Worker reports itself, and logs its own dead jobs. It is
// listed once, as it has reported itself. The gateway counts its runs, and logs nothing of them.
func TestClaimantReportsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		client, log, stop := serveClaimants(t, q)
		backend, err := remote.New([]string{"http://gateway"}, remote.Options{Token: secret, Client: client})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- engine.Worker{Backend: backend, Queues: []string{"q"}, Name: "go-1", Logger: slog.New(slog.DiscardHandler),
				Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return queue.Discard(nil) })}.Run(ctx)
		}()
		time.Sleep(5 * time.Second)
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Queue: "q", Kind: "mail"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		workers, err := q.Workers(t.Context())
		if err != nil || len(workers) != 1 || workers[0].PID == 0 || workers[0].Concurrency != 10 {
			t.Errorf("workers: %+v, error %v; want go-1 alone, as it has reported itself", workers, err)
		}
		if got := log.of("errand: job is dead"); len(got) != 0 {
			t.Errorf("the gateway has logged %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stop()
		stats, err := q.Stats(t.Context(), queue.StatsFilter{})
		if err != nil || len(stats) != 1 || stats[0].Dead != 1 {
			t.Errorf("statistics: %+v, error %v; want 1 dead", stats, err)
		}
	})
}
