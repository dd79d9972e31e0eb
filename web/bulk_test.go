package web_test

import (
	"errors"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/web"
)

// formOn returns the fields of the form on a page that changes something.
func formOn(t *testing.T, page string) url.Values {
	t.Helper()
	_, form, found := strings.Cut(page, `<form method="post"`)
	if !found {
		t.Fatalf("no form on the page:\n%s", page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	fields := make(url.Values)
	for _, m := range regexp.MustCompile(`name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(form, -1) {
		fields.Set(m[1], html.UnescapeString(m[2]))
	}
	return fields
}

// bulkJobs enqueues n jobs.
func bulkJobs(s *site, n int, job queue.Job) {
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = new(queue.Job)
		*jobs[i] = job
	}
	s.enqueue(jobs...)
}

// TestBulkListed: an action on few jobs reaches exactly the jobs that the preview has shown.
func TestBulkListed(t *testing.T) {
	s := newSite(t, web.Options{})
	bulkJobs(s, 120, queue.Job{Kind: "a"})
	bulkJobs(s, 5, queue.Job{Kind: "b"})
	page := s.want("bulk?action=cancel&status=pending&kind=a", "<strong>120 jobs.", "exactly these jobs", "Cancel 120 jobs")
	bulkJobs(s, 3, queue.Job{Kind: "a"})
	s.post("jobs/7/cancel", "")
	a := s.post("bulk", formOn(t, page.body).Encode())
	if !strings.Contains(a.body, "119 jobs changed, 1 left alone") {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	for id, want := range map[int64]queue.Status{1: queue.StatusCancelled, 120: queue.StatusCancelled, 121: queue.StatusPending, 126: queue.StatusPending} {
		if got := s.status(id); got != want {
			t.Errorf("job %d: %s", id, got)
		}
	}
}

// TestBulkRechecked: a listed job that has meanwhile ceased to match the filter is left alone,
// whatever the filter asks for, and a step that goes on reaches no job that is not listed.
func TestBulkRechecked(t *testing.T) {
	s := newSite(t, web.Options{})
	bulkJobs(s, 2, queue.Job{Kind: "a"})
	for range 2 {
		jobs, err := s.q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "w"})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("claim: %d jobs, %v", len(jobs), err)
		}
		if _, err := s.q.Settle(t.Context(), nil, queue.Outcome{Job: jobs[0], Action: queue.Retry, Err: errors.New("no")}); err != nil {
			t.Fatal(err)
		}
	}
	first := fail(t, s.q, queue.DefaultQueue, "no")
	second := fail(t, s.q, queue.DefaultQueue, "no")
	form := formOn(t, s.want("bulk?action=delete&status=dead&attempts=2", "<strong>2 jobs.").body)
	if a := s.post(fmt.Sprintf("jobs/%d/redrive", first.ID), ""); a.status != 303 {
		t.Fatalf("retry: %d", a.status)
	}
	fail(t, s.q, queue.DefaultQueue, "no") // dead again, after one attempt
	if a := s.post("bulk", form.Encode()); !strings.Contains(a.body, "1 job changed, 1 left alone") {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	if got := s.status(first.ID); got != queue.StatusDead {
		t.Errorf("the job that has changed: %q", got)
	}
	if got := s.status(second.ID); got != "" {
		t.Errorf("the other job: %q", got)
	}

	bulkJobs(s, 4, queue.Job{Kind: "b"}) // 3 to 6
	form = formOn(t, s.want("bulk?action=cancel&status=pending&kind=b", "<strong>4 jobs.").body)
	form.Set("ids", "3,5")
	form.Set("before", "5")
	if a := s.post("bulk", form.Encode()); !strings.Contains(a.body, "1 job changed") {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	for id, want := range map[int64]queue.Status{3: queue.StatusCancelled, 4: queue.StatusPending, 5: queue.StatusPending, 6: queue.StatusPending} {
		if got := s.status(id); got != want {
			t.Errorf("job %d: %s", id, got)
		}
	}
}

// TestBulkFrozen: an action on many jobs reaches all of the filter up to the newest one that the
// preview has shown, only after the person has typed how many there are, and can be resumed.
func TestBulkFrozen(t *testing.T) {
	s := newSite(t, web.Options{})
	bulkJobs(s, 2500, queue.Job{Kind: "a", Queue: "x"})
	page := s.want("bulk?action=cancel&status=pending&queue=x", "<strong>2,500 jobs.", "up to #2500", "Type 2500 to confirm")
	bulkJobs(s, 10, queue.Job{Kind: "a", Queue: "x"})
	form := formOn(t, page.body)
	if a := s.post("bulk", form.Encode()); a.status != 400 || s.status(1) != queue.StatusPending {
		t.Errorf("without the number: %d", a.status)
	}
	form.Set("typed", "2,500")
	if a := s.post("bulk", form.Encode()); !strings.Contains(a.body, "2,500 jobs changed, 0 left alone") || !strings.Contains(a.body, "Done.") {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	// The same form again, as after a reload, and a step that goes on from the middle.
	if a := s.post("bulk", form.Encode()); !strings.Contains(a.body, "0 jobs changed") {
		t.Errorf("again: %d: %s", a.status, a.body)
	}
	form.Set("before", "1000")
	form.Set("changed", "1501")
	if a := s.post("bulk", form.Encode()); !strings.Contains(a.body, "1,501 jobs changed") {
		t.Errorf("further: %d: %s", a.status, a.body)
	}
	for id, want := range map[int64]queue.Status{1: queue.StatusCancelled, 2500: queue.StatusCancelled, 2501: queue.StatusPending} {
		if got := s.status(id); got != want {
			t.Errorf("job %d: %s", id, got)
		}
	}
}

// TestBulkTicked: an action on the jobs that a person has ticked reaches exactly these.
func TestBulkTicked(t *testing.T) {
	s := newSite(t, web.Options{})
	bulkJobs(s, 2500, queue.Job{Kind: "a"})
	list := s.want("jobs?status=pending&kind=a", `name="job" value="2500"`, `name="kind" value="a"`, `name="ticked" value="1"`, `name="action" value="cancel"`)
	if n := strings.Count(list.body, `name="job"`); n != 50 {
		t.Errorf("%d boxes for 50 jobs", n)
	}
	s.post("jobs/8/cancel", "")
	page := s.want("bulk?status=pending&kind=a&ticked=1&action=cancel&job=2400&job=3&job=8", "<strong>2 jobs.", "exactly these jobs", "1 ticked job left out", "The ticked jobs", "#2400", "#3<")
	if strings.Contains(page.body, "#2500") {
		t.Error("the preview shows other jobs")
	}
	s.post("jobs/3/cancel", "")
	a := s.post("bulk", formOn(t, page.body).Encode())
	if !strings.Contains(a.body, "1 job changed, 1 left alone") || !strings.Contains(a.body, "Done.") || !strings.Contains(a.body, "<h1>Cancel</h1>") {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	for id, want := range map[int64]queue.Status{2400: queue.StatusCancelled, 2399: queue.StatusPending, 2401: queue.StatusPending, 4: queue.StatusPending, 2500: queue.StatusPending} {
		if got := s.status(id); got != want {
			t.Errorf("job %d: %s", id, got)
		}
	}
	s.want("bulk?status=pending&ticked=1&action=cancel&job=8", "None of the ticked jobs matches any more.")
	for page, want := range map[string]string{
		"bulk?status=pending&kind=a&ticked=1&action=cancel":       "none is ticked",
		"bulk?status=pending&kind=a&ticked=1&action=cancel&job=x": "not a list",
		"bulk?kind=a&ticked=1&action=cancel&job=4":                "does not act on jobs of this status",
	} {
		if a := s.get(page); a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d: %s", page, a.status, a.body)
		}
	}
	if list := s.want("jobs", "To act on several jobs, choose a status."); strings.Contains(list.body, `type="checkbox" name="job"`) {
		t.Error("a list of all statuses has boxes")
	}
	if list := newSite(t, web.Options{Authorize: web.Everyone(web.Viewer)}).want("jobs?status=pending"); strings.Contains(list.body, `name="ticked"`) {
		t.Error("a viewer's list has boxes")
	}
}

// TestBulkRefused: what is not an action on a filter is refused, and changes nothing.
func TestBulkRefused(t *testing.T) {
	s := newSite(t, web.Options{})
	bulkJobs(s, 3, queue.Job{Kind: "a"})
	for _, form := range []string{"", "action=cancel", "action=cancel&status=dead&ids=1", "action=drop&status=pending&ids=1",
		"action=cancel&status=pending", "action=cancel&status=pending&ids=1,x", "action=cancel&status=pending&ids=-1",
		"action=cancel&status=pending&max=3&count=3&typed=4", "action=cancel&status=pending&max=-3"} {
		if a := s.post("bulk", form); a.status != 400 {
			t.Errorf("%s: %d", form, a.status)
		}
	}
	for id := range int64(3) {
		if got := s.status(id + 1); got != queue.StatusPending {
			t.Errorf("job %d: %s", id+1, got)
		}
	}
	if a := s.get("bulk?action=cancel&status=completed"); a.status != 400 {
		t.Errorf("preview: %d", a.status)
	}
}
