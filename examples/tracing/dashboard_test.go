package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// dashboard is what the test reads of middleware/telemetry/dashboard.json.
type dashboard struct {
	SchemaVersion int `json:"schemaVersion"`
	Panels        []struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Datasource  struct {
			UID string `json:"uid"`
		} `json:"datasource"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

// Every name in the dashboard's expressions is one that Prometheus gets, suffix and all.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../middleware/telemetry/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	metrics, labels := namesIn(scrape(t))
	shown := make(map[string]bool)
	name := regexp.MustCompile(`\b(errand|messaging|error)_\w+`)
	for _, p := range d.Panels {
		if p.Title == "" || p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %q: want a title, a description, the datasource variable and a target", p.Title)
		}
		for _, target := range p.Targets {
			for _, n := range name.FindAllString(target.Expr, -1) {
				shown[family(n)] = true
				if !metrics[n] && !labels[n] {
					t.Errorf("panel %q: no metric or label %s in the scrape", p.Title, n)
				}
			}
		}
	}
	for n := range metrics {
		if name.MatchString(n) && !shown[family(n)] {
			t.Errorf("no panel shows %s", n)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "datasource" && v.Name == "datasource" && v.Query == "prometheus" {
			return
		}
	}
	t.Error("no variable for a Prometheus datasource")
}

// family is the name of what a series is a part of, such as a histogram.
func family(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// namesIn returns the names of an exposition's series, and of their labels.
func namesIn(exposition string) (metrics, labels map[string]bool) {
	metrics, labels = make(map[string]bool), make(map[string]bool)
	label := regexp.MustCompile(`[{,](\w+)="`)
	for line := range strings.Lines(exposition) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(line, "{")
		metrics[name] = true
		for _, m := range label.FindAllStringSubmatch(line, -1) {
			labels[m[1]] = true
		}
	}
	return metrics, labels
}

// scrape does each thing that is measured, and then what Prometheus does.
func scrape(t *testing.T) string {
	s, err := newSignals()
	if err != nil {
		t.Fatal(err)
	}
	memory := queuetest.New(queuetest.Options{})
	q := s.errand.Queue(memory)
	for _, observe := range []func(queue.Queue) (func(), error){s.errand.Observe, s.errand.ObserveWorkers, s.errand.ObserveStats} {
		stop, err := observe(memory)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	report(t, memory)
	work(t, memory, q, s.errand.Handler)

	server := httptest.NewServer(s.prometheus)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/plain;version=1.0.0;escaping=allow-utf-8") // as Prometheus 3 does, which could read other names
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// report reports a worker, and a run two minutes ago.
func report(t *testing.T, memory *queuetest.Queue) {
	t.Helper()
	stats := queue.Stats{Done: 1, RunTimes: queue.Histogram{1}, WaitTimes: queue.Histogram{1}}
	err := memory.ReportWorkers(t.Context(), driver.WorkerReport{
		WorkerInfo: driver.WorkerInfo{Name: "w", Queues: []string{queue.DefaultQueue}, Concurrency: 10},
		Stats:      []driver.MinuteStats{{Queue: queue.DefaultQueue, Kind: "k", Age: 2 * time.Minute, Stats: stats}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// work enqueues, claims and settles jobs, one of them twice, which finds it lost; runs one; and
// fails to claim.
func work(t *testing.T, memory *queuetest.Queue, q queue.Queue, traced queue.Middleware) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	must(q.Enqueue(ctx, nil, &queue.Job{Kind: "k"}, &queue.Job{Kind: "k"}))
	req := queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "w"}
	jobs, err := q.Claim(ctx, req)
	must(err)
	for range 2 {
		_, err = q.Settle(ctx, nil, queue.Outcome{Job: jobs[0]})
		must(err)
	}
	_, err = memory.Drain(ctx, queue.Chain(queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }), traced))
	must(err)
	if _, err := q.Claim(ctx, queue.ClaimRequest{}); err == nil {
		t.Fatal("Claim of nothing in particular: got no error")
	}
}
