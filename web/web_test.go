package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/web"
)

// site is a dashboard on a server of its own, beneath /errand/.
type site struct {
	t   *testing.T
	q   *memory.Queue
	h   *web.Handler
	url string
	log *strings.Builder
}

// newSite returns a dashboard of a queue in memory.
func newSite(t *testing.T, o web.Options) *site {
	t.Helper()
	q := memory.New(memory.Options{})
	s := siteOf(t, q, o)
	s.q = q
	return s
}

func siteOf(t *testing.T, q queue.Queue, o web.Options) *site {
	t.Helper()
	s := &site{t: t, log: new(strings.Builder)}
	if o.Authorize == nil {
		o.Authorize = web.Everyone(web.Admin)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	}
	h, err := web.New(q, o)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/errand/", http.StripPrefix("/errand", h))
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.Close(); h.Close() })
	s.h, s.url = h, server.URL+"/errand/"
	return s
}

// enqueue enqueues jobs.
func (s *site) enqueue(jobs ...*queue.Job) {
	s.t.Helper()
	if err := s.q.Enqueue(s.t.Context(), nil, jobs...); err != nil {
		s.t.Fatal(err)
	}
}

// fail makes the next job of the queue dead.
func fail(t *testing.T, q queue.Consumer, name, text string) *queue.Job {
	t.Helper()
	jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{name}, Limit: 1, Lease: time.Minute, Worker: "test-worker"})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("claim: %d jobs, %v", len(jobs), err)
	}
	if _, err := q.Settle(t.Context(), nil, queue.Outcome{Job: jobs[0], Action: queue.Dead, Err: errors.New(text)}); err != nil {
		t.Fatal(err)
	}
	return jobs[0]
}

// answer is what a page has answered.
type answer struct {
	status int
	header http.Header
	body   string
}

// get gets a page, and gets it again while it says that values are being read.
func (s *site) get(page string) answer {
	s.t.Helper()
	for {
		if a := s.do("GET", page, "", nil); !strings.Contains(a.body, awaits) {
			return a
		}
	}
}

// awaits is how a page says that values are being read.
const awaits = `<p class="awaits"`

// post sends a form, as a browser does from a page of the dashboard.
func (s *site) post(page, form string) answer {
	return s.do("POST", page, form, map[string]string{"Sec-Fetch-Site": "same-origin"})
}

func (s *site) do(method, page, form string, headers map[string]string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+page, strings.NewReader(form))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// want fails the test unless the page has all texts.
func (s *site) want(page string, texts ...string) answer {
	s.t.Helper()
	a := s.get(page)
	for strings.Contains(a.body, awaits) && s.t.Context().Err() == nil { // a browser asks for it again, too
		a = s.get(page)
	}
	if a.status != http.StatusOK {
		s.t.Errorf("%s: status %d", page, a.status)
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			s.t.Errorf("%s lacks %q:\n%s", page, text, a.body)
		}
	}
	return a
}

// status returns the status of a job.
func (s *site) status(id int64) queue.Status {
	s.t.Helper()
	r, _, err := s.q.Job(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Status
}

func TestNewNeedsAuthorize(t *testing.T) {
	q := memory.New(memory.Options{})
	for name, test := range map[string]struct {
		q queue.Enqueuer
		o web.Options
	}{
		"Authorize":      {q, web.Options{}},
		"Queue":          {enqueuer{}, web.Options{Authorize: web.Everyone(web.Viewer)}},
		"TrustedOrigins": {q, web.Options{Authorize: web.Everyone(web.Viewer), TrustedOrigins: []string{"ops.example.com"}}},
	} {
		_, err := web.New(test.q, test.o)
		if i, ok := errors.AsType[*queue.InvalidError](err); !ok || !strings.HasSuffix(i.Field, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// enqueuer is no Inspector.
type enqueuer struct{}

func (enqueuer) Enqueue(context.Context, queue.DB, ...*queue.Job) error { return nil }

// TestPages: each page shows what there is.
func TestPages(t *testing.T) {
	s := newSite(t, web.Options{})
	s.want("", "All well", "No queue has jobs yet", "No job is dead")
	s.want("jobs", "There are no jobs yet")
	s.want("queues", "No queue has jobs")
	s.want("kinds", "There are no jobs yet")
	s.want("schedules", "There are no schedules")

	s = newSite(t, web.Options{})
	s.enqueue(&queue.Job{Kind: "email.welcome", Queue: "mail", Payload: json.RawMessage(`{"to":"ann@example.com"}`), Group: "acme"},
		&queue.Job{Kind: "report", Queue: "slow", Delay: time.Hour})
	fail(t, s.q, "mail", "550 mailbox full")
	s.want("", "mail", "slow", "550 mailbox full", "jobs?status=dead", "1</span> <span class=\"status dead\"")
	s.want("jobs", "email.welcome", "report", "group <bdi>acme")
	if page := s.want("jobs?status=dead", "email.welcome", "550 mailbox full", "Retry all"); strings.Contains(page.body, ">report<") {
		t.Error("the filter lets a pending job pass")
	}
	s.want("jobs/1", "email.welcome", "550 mailbox full", "Attempt 1 failed", "test-worker", "acme", "Retry", "&#34;to&#34;: string")
	s.want("jobs/1?values=1", "ann@example.com")
	s.want("jobs/2", "Run now", "Cancel the job", "in 59 min")
	s.want("queues", "mail", "none due")
	s.want("queues/mail", "Pause the queue", "No limits", "Change the limits")
	s.want("kinds", "email.welcome", "report", "of the newest 2 jobs")
}

// TestOperations: the pages of workers, health and the audit log, and what explains a job.
func TestOperations(t *testing.T) {
	s := newSite(t, web.Options{Authorize: func(*http.Request) web.Access { return web.Access{Actor: "ann", May: web.Admin} }})
	s.want("workers", "No worker has reported itself")
	s.want("audit", "Nobody has done anything yet")
	s.want("health", "Healthy", "nobody-serves")
	s.enqueue(&queue.Job{Kind: "a"}, &queue.Job{Kind: "b", Queue: "rare"})
	if _, err := s.q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"default"}, Limit: 1, Lease: time.Minute, Worker: "app-1"}); err != nil {
		t.Fatal(err)
	}
	info := driver.WorkerInfo{Name: "app-1", Host: "host-7", PID: 4711, Queues: []string{"default"}, Concurrency: 10, Busy: 1, Poll: time.Second}
	if err := s.q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: info, Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	s.post("queues/rare/pause", "paused=true&reason=the+partner+is+down")
	s.want("workers", "app-1", "host-7</bdi>, process 4711", "1 of 10", "jobs/1")
	s.want("", "1 worker, 1 of 10 places busy")
	s.want("jobs/2", "Why it does not run", "paused")
	s.want("audit", "ann", "queues.pause", "queues/rare", "the partner is down")
	if a := s.post("jobs/1/delete", ""); a.header.Get("Location") != "../../jobs?did=jobs.delete&n=0" {
		t.Errorf("a running job: %d to %q", a.status, a.header.Get("Location"))
	}
	s.post("jobs/2/delete", "reason=twice")
	if a := s.get("jobs/2"); a.status != http.StatusNotFound || !strings.Contains(a.body, "Job 2 was deleted by a person.") || !strings.Contains(a.body, "twice") {
		t.Errorf("a deleted job: %d: %s", a.status, a.body)
	}
	if a := s.get("jobs/77"); a.status != http.StatusNotFound || !strings.Contains(a.body, "There is no job 77.") {
		t.Errorf("a job that was never there: %d: %s", a.status, a.body)
	}
	for _, id := range []string{"0", "-5"} {
		if a := s.get("jobs/" + id); a.status != http.StatusNotFound || !strings.Contains(a.body, "There is no job "+id+". errand gives IDs from 1 on.") {
			t.Errorf("job %s: %d: %s", id, a.status, a.body)
		}
	}
	if a := s.post("jobs/77/redrive", ""); a.status != http.StatusNotFound || !strings.Contains(a.body, "There is no such job.") {
		t.Errorf("retry of a job that was never there: %d: %s", a.status, a.body)
	}
	s.want("audit?actor=ann", "jobs.delete", "twice", "jobs/2")
	if a := s.want("audit"); strings.Contains(a.body, ">jobs/1<") || strings.Count(a.body, "id=\"entry-") != 2 {
		t.Error("the audit log has an action that has changed nothing")
	}
}

// TestBehind: the timeline of a job does not say anything else than explain.
func TestBehind(t *testing.T) {
	s := newSite(t, web.Options{})
	s.enqueue(&queue.Job{Kind: "a", Group: "g", Ordered: true}, &queue.Job{Kind: "a", Group: "g", Ordered: true})
	if a := s.want("jobs/2", "Due since", "waits for job 1 of its group"); strings.Contains(a.body, "waits for a worker") {
		t.Errorf("it waits for a worker, too: %s", a.body)
	}
}

// TestOddName: whatever the name of a queue, the page of its job says who has paused it, and why.
func TestOddName(t *testing.T) {
	for _, name := range []string{"team/mail", "~x", "a b%", ".."} {
		s := newSite(t, web.Options{Authorize: func(*http.Request) web.Access { return web.Access{Actor: "ann", May: web.Admin} }})
		s.enqueue(&queue.Job{Kind: "a", Queue: name})
		link := regexp.MustCompile(`href="\./(queues/[^"]+)"`).FindStringSubmatch(s.want("queues").body)
		if link == nil {
			t.Fatalf("%s: no link", name)
		}
		if a := s.post(link[1]+"/pause", "paused=true&reason=outage"); a.status != http.StatusSeeOther {
			t.Errorf("%s: status %d", name, a.status)
		}
		s.want("jobs/1", "queues.pause: ann, at ", "because: outage")
	}
}

// TestActions: each action changes what it says, logs who did it and why, and says what it came to.
func TestActions(t *testing.T) {
	s := newSite(t, web.Options{Authorize: func(*http.Request) web.Access { return web.Access{Actor: "ann", May: web.Admin} }})
	s.enqueue(&queue.Job{Kind: "a"}, &queue.Job{Kind: "a", Delay: time.Hour})
	fail(t, s.q, queue.DefaultQueue, "no")
	act := func(page, form, location string) {
		t.Helper()
		a := s.post(page, form)
		if a.status != http.StatusSeeOther || a.header.Get("Location") != location {
			t.Errorf("%s: status %d, to %q", page, a.status, a.header.Get("Location"))
		}
	}
	act("jobs/1/redrive", "reason=mailbox+emptied", "../../jobs/1?did=jobs.redrive&n=1")
	if got := s.status(1); got != queue.StatusPending {
		t.Errorf("retried: %s", got)
	}
	act("jobs/1/redrive", "", "../../jobs/1?did=jobs.redrive&n=0")
	act("jobs/2/run", "", "../../jobs/2?did=jobs.run&n=1")
	act("jobs/2/cancel", "reason=wrong+order", "../../jobs/2?did=jobs.cancel&n=1")
	if got := s.status(2); got != queue.StatusCancelled {
		t.Errorf("cancelled: %s", got)
	}
	s.want("jobs/2", "What has become of it", "Job 2 was cancelled", "jobs.cancel: ann, at ", "because: wrong order")
	act("queues/default/pause", "paused=true", "../../queues/default?did=queues.pause&n=1")
	s.want("queues/default?did=queues.pause&n=1", "The queue is paused", "Resume the queue")
	s.want("", "Queue default is paused")
	act("queues/default/limits", "running=5&rate=10&rate_per=1m", "../../queues/default?did=queues.limit&n=1")
	s.want("queues/default", "5 at once, 10 in 1 min", `class="status paused"`)
	act("queues/default/pause", "paused=false", "../../queues/default?did=queues.resume&n=1")
	act("kinds/a/pause", "paused=true", "../../kinds?did=kinds.pause&n=1")
	s.want("kinds", "Resume a")
	act("kinds/a/pause", "paused=false", "../../kinds?did=kinds.resume&n=1")
	if log := s.log.String(); !strings.Contains(log, `actor=ann action=jobs.redrive target=jobs/1 changed=1 reason="mailbox emptied"`) {
		t.Errorf("the log lacks the action:\n%s", log)
	}
	if a := s.post("queues/default/pause", ""); a.status != http.StatusBadRequest {
		t.Errorf("pause without a value: %d", a.status)
	}
	if a := s.post("queues/default/limits", "running=-1"); a.status != http.StatusBadRequest {
		t.Errorf("a limit below 0: %d", a.status)
	}
	if a := s.post("queues/default/limits", "rate=10&rate_per=0s"); a.status != http.StatusBadRequest {
		t.Errorf("a rate in no time: %d", a.status)
	}
	if a := s.get("bulk?action=cancel&status=running&for=0s"); a.status != http.StatusBadRequest || !strings.Contains(a.body, "not a time such as 90s") {
		t.Errorf("jobs that have run for no time: %d", a.status)
	}
}
