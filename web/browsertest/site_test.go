package browsertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/web"
)

// site is a dashboard beneath a prefix.
type site struct {
	t   *testing.T
	q   *memory.Queue
	url string
}

func newSite(t *testing.T) *site {
	t.Helper()
	q := memory.New(memory.Options{})
	return siteOf(t, q, q)
}

// siteOf returns the dashboard of shown, which wraps q.
func siteOf(t *testing.T, q *memory.Queue, shown queue.Queue) *site {
	t.Helper()
	h, err := web.New(shown, web.Options{
		Authorize: func(*http.Request) web.Access { return web.Access{Actor: "ann", May: web.Admin} },
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/errand/", http.StripPrefix("/errand", h))
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.Close(); h.Close() })
	return &site{t, q, server.URL + "/errand/"}
}

func (s *site) enqueue(jobs ...*queue.Job) {
	s.t.Helper()
	if err := s.q.Enqueue(s.t.Context(), nil, jobs...); err != nil {
		s.t.Fatal(err)
	}
}

// claim claims the jobs of a queue.
func (s *site) claim(name string, limit int) []*queue.Job {
	s.t.Helper()
	jobs, err := s.q.Claim(s.t.Context(), queue.ClaimRequest{Queues: []string{name}, Limit: limit, Lease: time.Minute, Worker: "app-7f9c-1"})
	if err != nil || len(jobs) == 0 {
		s.t.Fatalf("claim of %s: %d jobs, %v", name, len(jobs), err)
	}
	return jobs
}

// settle ends the runs of jobs.
func (s *site) settle(action queue.OutcomeAction, err error, delay time.Duration, jobs ...*queue.Job) {
	s.t.Helper()
	for _, job := range jobs {
		if _, err := s.q.Settle(s.t.Context(), nil, queue.Outcome{Job: job, Action: action, Err: err, Delay: delay}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// stock fills the shop with jobs of all statuses. The job of the page is the second one: dead, with
// a history.
func (s *site) stock() {
	s.t.Helper()
	payload := json.RawMessage(`{"order":1274,"to":"ann@example.com","items":[{"sku":"TEA-7","count":2},{"sku":"CUP-1","count":1}],"gift":false}`)
	s.enqueue(&queue.Job{Kind: "webhook.send", Queue: "webhooks", Payload: payload, MaxAttempts: 2, Group: "acme", Headers: map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00"}},
		&queue.Job{Kind: "email.welcome", Queue: "mail", Payload: payload, MaxAttempts: 2, Key: "user:1274"})
	s.settle(queue.Done, nil, 0, s.claim("webhooks", 1)...)
	s.settle(queue.Retry, queue.RecoveredPanic("index out of range [3] with length 3"), 0, s.claim("mail", 1)...)
	s.settle(queue.Dead, errors.New("smtp: 550 mailbox of <ann@example.com> is full, giving up after the 2nd attempt"), 0, s.claim("mail", 1)...)
	for i := range 40 {
		group := fmt.Sprintf("tenant-%02d", i%7)
		s.enqueue(&queue.Job{Kind: "webhook.send", Queue: "webhooks", Payload: payload, Group: group}, &queue.Job{Kind: "report.monthly", Queue: "reports", Payload: payload, Delay: time.Duration(i) * time.Hour})
	}
	s.settle(queue.Done, nil, 0, s.claim("webhooks", 12)...)
	s.settle(queue.Retry, errors.New("POST https://hooks.example.com/v1/orders: 503 Service Unavailable"), time.Minute, s.claim("webhooks", 2)...)
	s.settle(queue.Dead, errors.New("POST https://hooks.example.com/v1/orders: 410 Gone"), 0, s.claim("webhooks", 1)...)
	s.claim("webhooks", 3) // these run
	if _, err := s.q.Cancel(s.t.Context(), nil, queue.Selection{IDs: []int64{40, 42}}); err != nil {
		s.t.Fatal(err)
	}
	rules := []queue.Rule{{Queue: "webhooks", Running: 20, PerGroup: 2, GroupRate: queue.Rate{Jobs: 10}}, {Queue: "webhooks", Group: "tenant-03", PerGroup: 5}}
	if err := s.q.SetRules(s.t.Context(), nil, rules...); err != nil {
		s.t.Fatal(err)
	}
	info := driver.WorkerInfo{Name: "app-7f9c-1", Host: "app-7f9c", PID: 4711, Version: "v0.1.0", Queues: []string{"webhooks", "mail"}, Concurrency: 20, Busy: 3, Lease: 30 * time.Second, Listens: true, Poll: time.Second}
	for _, name := range []string{"app-7f9c-1", "app-7f9c-2"} {
		info.Name = name
		report := driver.WorkerReport{WorkerInfo: info, Age: time.Hour, ClaimAge: time.Second}
		for i := range 55 {
			n := int64(300 + 40*(i%7) + 10*(i%3))
			stats := queue.Stats{Done: n, Failed: int64(i % 11 * 4), Ran: time.Duration(n) * 40 * time.Millisecond, Waited: time.Duration(n) * 90 * time.Millisecond}
			stats.RunTimes, stats.WaitTimes = queue.Histogram{0, 0, 0, n, n, n, 2, 1}, queue.Histogram{0, 0, 0, 0, n, n, n, n, 5}
			report.Stats = append(report.Stats, driver.MinuteStats{Queue: "webhooks", Kind: "webhook.send", Age: time.Duration(i) * time.Minute, Stats: stats})
		}
		if err := s.q.ReportWorkers(s.t.Context(), report); err != nil {
			s.t.Fatal(err)
		}
		info.Busy = 0
	}
	entry := queue.AuditEntry{Actor: "ann", Action: "jobs.cancel", Selection: "jobs/40", JobID: 40, Count: 1, Reason: "the customer has called"}
	if err := s.q.Audit(s.t.Context(), nil, entry, queue.AuditEntry{Actor: "bob", Action: "queues.pause", Selection: "queues/reports", Count: 1}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.q.Pause(s.t.Context(), nil, queue.Target{Queue: "reports"}, true); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.q.Pause(s.t.Context(), nil, queue.Target{Kind: "report.monthly"}, true); err != nil {
		s.t.Fatal(err)
	}
	err := s.q.SetSchedules(s.t.Context(), nil,
		queue.Schedule{Name: "monthly-reports", Spec: "0 6 1 * *", Zone: "Europe/Berlin", Job: &queue.Job{Kind: "report.monthly", Queue: "reports"}},
		queue.Schedule{Name: "stock-sync", Spec: "@every 90s", Job: &queue.Job{Kind: "stock.sync"}},
		queue.Schedule{Name: "cleanup", Spec: "@daily", Job: &queue.Job{Kind: "cleanup"}, Paused: true})
	if err != nil {
		s.t.Fatal(err)
	}
}

// pages are the pages of a stocked shop.
var pages = map[string]string{
	"overview": "", "jobs": "jobs", "jobs-filtered": "jobs?status=pending&queue=webhooks&group=tenant-03", "queues": "queues",
	"kinds": "kinds", "schedules": "schedules", "workers": "workers", "health": "health", "audit": "audit", "job-pending": "jobs/81", "none": "no-such-page", "no-match": "jobs?kind=x", "bad-filter": "jobs?for=x",
	"kind": "kinds/webhook.send", "jobs-dead": "jobs?status=dead", "no-job": "jobs/999",
	"queue": "queues/webhooks", "job": "jobs/2", "job-values": "jobs/2?values=1", "job-running": "jobs/33", "job-cancelled": "jobs/40",
	"bulk": "bulk?action=cancel&status=pending&queue=webhooks", "bulk-ticked": "bulk?action=redrive&status=dead&ticked=1&job=2&job=31",
}

// needsJobs are the pages that an empty shop does not have.
var needsJobs = map[string]bool{"job": true, "job-pending": true, "job-values": true, "job-running": true, "job-cancelled": true}

// states are how the shop of a site can be.
var states = []string{"empty", "full", "broken"}

// siteIn returns the dashboard of a shop in a state. If it is broken, the database has gone after
// the overview had been opened.
func siteIn(t *testing.T, state string) *site {
	t.Helper()
	if state == "empty" {
		return newSite(t)
	}
	q := &breakable{Queue: memory.New(memory.Options{})}
	s := siteOf(t, q.Queue, q)
	s.stock()
	if state == "broken" {
		response, err := http.Get(s.url)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		q.isGone.Store(true)
		time.Sleep(3 * time.Second) // until the dashboard reads again
	}
	return s
}

// eachPage opens each page of a shop in each state, in light and dark colours, on a phone and on a
// screen, and calls f. what names the page and how it looks.
func eachPage(t *testing.T, phone int64, f func(b *tab, what string, width int64, scheme string)) {
	t.Helper()
	for _, kind := range states {
		s := siteIn(t, kind)
		b := newTab(t)
		for _, name := range slices.Sorted(maps.Keys(pages)) {
			if kind == "empty" && needsJobs[name] {
				continue
			}
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range []int64{phone, 1280} {
					b.look(width, 800, scheme)
					b.open(s.url + pages[name])
					f(b, fmt.Sprintf("%s-%s-%s-%d", kind, name, scheme, width), width, scheme)
				}
			}
		}
		b.wantClean()
	}
}
