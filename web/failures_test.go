package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/web"
)

// failAs makes a job of the kind fail with an error.
func failAs(s *site, kind string, action queue.OutcomeAction, text string) {
	s.t.Helper()
	name := fmt.Sprintf("%s-%d", kind, action)
	s.enqueue(&queue.Job{Kind: kind, Queue: name})
	jobs, err := s.q.Claim(s.t.Context(), queue.ClaimRequest{Queues: []string{name}, Limit: 1, Lease: time.Minute, Worker: "w"})
	if err != nil || len(jobs) != 1 {
		s.t.Fatalf("claim: %d jobs, %v", len(jobs), err)
	}
	o := queue.Outcome{Job: jobs[0], Action: action, Err: fmt.Errorf("%s", text), Delay: time.Hour}
	if _, err := s.q.Settle(s.t.Context(), nil, o); err != nil {
		s.t.Fatal(err)
	}
}

// TestFailures: failures whose errors differ only in names and numbers are one line, for each kind.
func TestFailures(t *testing.T) {
	s := newSite(t, web.Options{})
	s.want("kinds/nobody", "No job is dead or waits")
	for i := range 3 {
		failAs(s, "mail", queue.Dead, fmt.Sprintf("smtp: 550 mailbox of <user%d@example.com> is full\ntried %d hosts", i, i))
	}
	failAs(s, "mail", queue.Retry, "smtp: 550 mailbox of <user7@example.com> is full")
	failAs(s, "mail", queue.Dead, `dial "mx.example.com": timeout`)
	failAs(s, "report", queue.Dead, "smtp: 550 mailbox of <user1@example.com> is full")
	s.enqueue(&queue.Job{Kind: "mail"})
	page := s.want("kinds/mail", "by their last error: 5 jobs.", "mailbox of &lt;user7@example.com&gt; is full", "timeout",
		`jobs?status=dead&amp;kind=mail">3</a>`, `jobs?status=pending&amp;attempts=1&amp;kind=mail">1</a>`, `jobs/4">#4</a>`, "Pause the kind", "jobs/7")
	table, _, _ := strings.Cut(page.body, `<h2 id="newest">`)
	if strings.Contains(table, "tried") || strings.Contains(table, "user1@") || strings.Count(table, `id="failure-`) != 2 {
		t.Errorf("want two groups, each with the first line of its newest error:\n%s", page.body)
	}
	page = s.want("kinds", "by their last error: 6 jobs.", "kinds/report")
	if strings.Count(page.body, `id="failure-`) != 3 {
		t.Errorf("want three groups:\n%s", page.body)
	}
	if a := s.get("kinds/a%00b"); a.status != http.StatusNotFound {
		t.Errorf("a kind that no job can have: %d", a.status)
	}
}

// TestFailuresHidden: who may not see payloads sees of errors what the redaction leaves.
func TestFailuresHidden(t *testing.T) {
	s := newSite(t, web.Options{Authorize: web.Everyone(web.Viewer)})
	failAs(s, "mail", queue.Dead, "550 mailbox of ann@example.com is full")
	if page := s.want("kinds/mail", "mailbox of … is full"); strings.Contains(page.body, "ann@") {
		t.Error("the page shows a value")
	}
	s = newSite(t, web.Options{Authorize: web.Everyone(web.Viewer), Redact: func(web.Value) string { return "" }})
	failAs(s, "mail", queue.Dead, "550 mailbox of ann@example.com is full")
	if page := s.want("kinds/mail", "(not shown)"); strings.Contains(page.body, "mailbox") {
		t.Error("the page shows what Redact leaves out")
	}
}

// TestFailuresBounded: a page looks at the newest failures only, and says so.
func TestFailuresBounded(t *testing.T) {
	s := newSite(t, web.Options{})
	bulkJobs(s, 1100, queue.Job{Kind: "mail", Queue: "mail"})
	jobs, err := s.q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"mail"}, Limit: 1100, Lease: time.Minute, Worker: "w"})
	if err != nil || len(jobs) != 1100 {
		t.Fatalf("claim: %d jobs, %v", len(jobs), err)
	}
	for i, job := range jobs {
		err := fmt.Errorf("error of the sort %s", strings.Repeat("x", i%30+1))
		if _, err := s.q.Settle(t.Context(), nil, queue.Outcome{Job: job, Action: queue.Dead, Err: err}); err != nil {
			t.Fatal(err)
		}
	}
	s.want("kinds/mail", "by their last error: 1,000 jobs.", "Dead jobs older than #101 were not looked at.", "Not shown: 10 errors of fewer jobs.")
}
