package web_test

import (
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/web"
)

// siteBelow has n pending jobs of the kind a, with the IDs from top down.
func siteBelow(t *testing.T, n, top int) *site {
	t.Helper()
	db, err := sqlite.Open("sqlite", filepath.Join(t.TempDir(), "jobs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := sqlite.Migrate(t.Context(), db, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = &queue.Job{Kind: "a"}
	}
	if err := q.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
	for _, by := range []int{1_000_000, top - n - 1_000_000} { // in two steps, so that no two rows have the same ID
		if _, err := db.ExecContext(t.Context(), `UPDATE errand_jobs SET id = id + ?`, by); err != nil {
			t.Fatal(err)
		}
	}
	return siteOf(t, q, web.Options{})
}

var (
	olderLink = regexp.MustCompile(`href="[^"]*(jobs\?[^"]+)" rel="next">Older`)
	jobLink   = regexp.MustCompile(`href="[^"]*jobs/(-?\d+)"`)
)

// TestPagesBelow: the pages of a list reach all jobs, also those whose IDs are 0 and below. Each of
// these has a page.
func TestPagesBelow(t *testing.T) {
	for _, top := range []int{70, 49, -1} {
		s := siteBelow(t, 120, top)
		var got []string
		for page := "jobs?status=pending"; page != "" && len(got) <= 120; {
			body := s.want(page).body
			for _, m := range jobLink.FindAllStringSubmatch(body, -1) {
				got = append(got, m[1])
			}
			page = ""
			if m := olderLink.FindStringSubmatch(body); m != nil {
				page = html.UnescapeString(m[1])
			}
		}
		if len(got) != 120 || got[119] != fmt.Sprint(top-119) {
			t.Errorf("from %d: got %d jobs: %s", top, len(got), got)
		}
		s.want(fmt.Sprintf("jobs/%d", top-119), "pending")
	}
}

// TestBulkBelow: an action on many jobs reaches those whose IDs are 0 and below, also in a step
// that goes on from there, and a preview begins there.
func TestBulkBelow(t *testing.T) {
	s := siteBelow(t, 1100, 50)
	s.want("bulk?action=cancel&status=pending&kind=a&before=-950", "<strong>100 jobs.")
	form := formOn(t, s.want("bulk?action=cancel&status=pending&kind=a", "<strong>1,100 jobs.", "up to #50").body)
	form.Set("before", "-1000")
	if a := s.post("bulk", form.Encode()); !strings.Contains(a.body, "50 jobs changed, 0 left alone") || !strings.Contains(a.body, "Done.") {
		t.Errorf("from -1000: status %d: %s", a.status, a.body)
	}
	form.Del("before")
	form.Set("typed", "1100")
	if a := s.post("bulk", form.Encode()); !strings.Contains(a.body, "1,050 jobs changed, 0 left alone") {
		t.Errorf("all: status %d: %s", a.status, a.body)
	}
}

// TestBulkListedBelow: an action reaches listed and ticked jobs whose IDs are all 0 and below.
func TestBulkListedBelow(t *testing.T) {
	s := siteBelow(t, 5, 0)
	form := formOn(t, s.want("bulk?action=cancel&status=pending&ticked=1&job=0&job=-3", "<strong>2 jobs.").body)
	if a := s.post("bulk", form.Encode()); !strings.Contains(a.body, "2 jobs changed, 0 left alone") {
		t.Errorf("ticked: status %d: %s", a.status, a.body)
	}
	form = formOn(t, s.want("bulk?action=cancel&status=pending&kind=a", "<strong>3 jobs.", `name="ids" value="-1,-2,-4"`).body)
	if a := s.post("bulk", form.Encode()); !strings.Contains(a.body, "3 jobs changed, 0 left alone") {
		t.Errorf("listed: status %d: %s", a.status, a.body)
	}
}
