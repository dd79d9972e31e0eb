package web_test

import (
	"context"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/web"
)

// watch gets the overview as a browser does, and returns the last one.
func watch(h *web.Handler, length time.Duration) (got string) {
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(3 * time.Second) {
		got = page(h, "/")
	}
	return got
}

// burdened returns a queue of which everything takes 40 ms, and a dashboard of it that somebody has
// watched for some minutes. A worker serves the queue other only.
func burdened(t *testing.T) (*slowAll, *web.Handler) {
	t.Helper()
	q := &slowAll{Queue: memory.New(memory.Options{})}
	q.takes.Store(int64(40 * time.Millisecond))
	h := newHandler(t, q)
	watch(h, 5*time.Minute)
	return q, h
}

// report says that a worker is alive that serves the queue other.
func (q *slowAll) report(t *testing.T) {
	t.Helper()
	info := driver.WorkerInfo{Name: "w", Queues: []string{"other"}, Concurrency: 10}
	if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: info}); err != nil {
		t.Fatal(err)
	}
}

// TestFacts: however long counts take, a new dead job, the oldest due job, and a queue that no
// worker serves are on the page within five seconds.
func TestFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, h := burdened(t)
		q.report(t)
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", Queue: "mail"}, &queue.Job{Kind: "k", Queue: "slow"}); err != nil {
			t.Fatal(err)
		}
		fail(t, q, "mail", "broken pipe")
		wantTexts(t, watch(h, 5*time.Second), []string{"broken pipe", `id="queue-slow"`})
		time.Sleep(6 * time.Second) // the job has been due for 11 s
		q.report(t)
		wantTexts(t, watch(h, 4*time.Second), []string{"Not served", "No live worker serves queue slow. Its oldest due job has waited for 15 s."})
		time.Sleep(time.Minute - 18*time.Second)
		q.report(t)
		wantTexts(t, watch(h, 4*time.Second), []string{"The oldest due job of queue slow has waited for 1 min."})
	})
}

// TestAges: beside each value that is older than five seconds stands its age.
func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, h := burdened(t)
		if err := q.SetRules(t.Context(), nil, queue.Rule{Queue: "mail", Running: 2}); err != nil {
			t.Fatal(err)
		}
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", Queue: "mail", MaxAttempts: 1}); err != nil {
			t.Fatal(err)
		}
		fail(t, q, "mail", "broken pipe")
		const counts, jobs = "Counts as of 7 s ago", "Jobs as of 7 s ago"
		for path, texts := range map[string][]string{
			"/":       {`<h2 id="totals">Jobs</h2>` + "\n" + `<p class="asof">` + counts + "</p>", `<h2 id="queues">Queues</h2>` + "\n" + `<p class="asof">` + counts + ", limits and pauses as of 7 s ago</p>"},
			"/queues": {counts}, "/queues/mail": {counts, "Limits and pauses as of 7 s ago", "Running jobs as of 7 s ago"},
			"/kinds": {"Kinds as of 7 s ago", "Errors as of 7 s ago"}, "/kinds/k": {"Errors as of 7 s ago", jobs},
			"/jobs?status=dead": {jobs},
		} {
			time.Sleep(time.Hour) // what other pages have read is old
			settled(h, path)
			time.Sleep(7 * time.Second)
			got := page(h, path)
			wantTexts(t, got, texts)
			for _, fact := range []string{"Waiting times as of", "Dead jobs as of", "Workers as of", "Paused kinds as of"} {
				if strings.Contains(got, fact) {
					t.Errorf("%s shows an old fact: %s", path, fact)
				}
			}
		}
	})
}

// TestVerdictTrust: a verdict does not rest on facts that are older than 15 seconds. It says since
// when they are not known.
func TestVerdictTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, prepare := range map[string]func(q *slowAll){
			"all well": func(*slowAll) {},
			"stuck": func(q *slowAll) {
				if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", Queue: "mail"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Minute)
			},
		} {
			q, h := burdened(t)
			prepare(q)
			since := time.Now().UTC().Format("15:04:05 UTC")
			wantTexts(t, settled(h, "/"), []string{map[string]string{"all well": "All well", "stuck": "Stuck"}[what]})
			q.takes.Store(int64(time.Hour))
			got := watch(h, 30*time.Second)
			wantTexts(t, got, []string{`class="word">Unknown`, "Not known: waiting times (since " + since})
			for _, word := range []string{"All well", "Stuck", "has waited for"} {
				if strings.Contains(got, word) {
					t.Errorf("%s: half a minute later it says %q", what, word)
				}
			}
			h.Close()
			q.takes.Store(0)
			time.Sleep(2 * time.Hour) // what hangs ends
		}
	})
}

// TestHealthTrust: the page of health does not say that all is healthy when that was found out too
// long ago.
func TestHealthTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, memory.New(memory.Options{}))
		settled(h, "/health")
		wantTexts(t, page(h, "/health"), []string{`class="word">Healthy`})
		time.Sleep(20 * time.Second)
		wantTexts(t, page(h, "/health"), []string{`class="word">Unknown`, "Then: healthy."})
	})
}

// TestAnswerTrust: why a job does not run is not shown as a fact of now when it was found out too
// long ago.
func TestAnswerTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, h := burdened(t)
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", Queue: "mail"}); err != nil {
			t.Fatal(err)
		}
		wantTexts(t, settled(h, "/jobs/1"), []string{`class="verdict why fail"`, "No worker is alive"})
		q.takes.Store(int64(time.Hour))
		time.Sleep(16 * time.Second)
		wantTexts(t, page(h, "/jobs/1"), []string{`class="verdict why unknown"`, "as of 16 s ago", "No worker is alive"})
		h.Close()
		time.Sleep(2 * time.Hour) // what hangs ends
	})
}

// post sends a form as a page of the dashboard does, and returns where the browser is sent.
func post(h *web.Handler, path string, form url.Values) (location string, status int) {
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Header().Get("Location"), w.Code
}

// TestReadNow: a button has everything on a page read again. Together such readings keep to the
// budget, too.
func TestReadNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slow{Queue: memory.New(memory.Options{})}
		q.takes.Store(int64(time.Second))
		h := newHandler(t, q)
		settled(h, "/queues?a=b")
		time.Sleep(10 * time.Second)
		wantTexts(t, page(h, "/queues?a=b&did=read&n=1"), []string{"Counts as of 11 s ago", `<button name="page" value="queues?a=b">Read now</button>`})
		before := q.calls.Load()
		for i := range 20 {
			location, status := post(h, "/read", url.Values{"page": {"queues?a=b"}})
			if status != 303 || !strings.HasPrefix(location, "./queues?a=b&did=read&n=") {
				t.Fatalf("status %d, to %q", status, location)
			}
			got := page(h, strings.TrimPrefix(location, "."))
			if i == 0 {
				wantTexts(t, got, []string{"The page was read again."})
			}
			if i == 19 {
				wantTexts(t, got, []string{"Not read again"})
			}
			if i == 0 && strings.Contains(got, "as of") {
				t.Errorf("the page still has an old value:\n%s", got)
			}
			time.Sleep(time.Second)
		}
		if n := q.calls.Load() - before; n != 4 {
			t.Errorf("%d readings of a second each, want 4: each is paid for with 200 s, and ten minutes may be owed", n)
		}
		time.Sleep(time.Hour)
		if location, _ := post(h, "/read", url.Values{"page": {""}}); location != "./?did=read&n=1" {
			t.Errorf("an hour later: to %q", location)
		}
	})
	h := newHandler(t, memory.New(memory.Options{}))
	for _, bad := range []string{"//example.com", "https://example.com/", "../x", "a/../../x", "\r\nX: y", `\\example.com`} {
		location, status := post(h, "/read", url.Values{"page": {bad}})
		if status == 303 && !strings.HasPrefix(location, "./%5C") {
			t.Errorf("%q leads to %q", bad, location)
		}
	}
}

// slowCounts is a queue whose counts and waiting times take as long as those of a long table.
type slowCounts struct {
	*postgres.Backend
	counted *atomic.Int64
}

func (b slowCounts) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	b.counted.Add(1)
	time.Sleep(100 * time.Millisecond)
	return b.Backend.Counts(ctx)
}

func (b slowCounts) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	time.Sleep(10 * time.Millisecond)
	return b.Backend.Backlogs(ctx)
}

// TestFactsOfPostgres: a job that becomes overdue and one that dies are on the page before what
// takes long is read again. How soon is the business of TestFacts.
func TestFactsOfPostgres(t *testing.T) {
	db := postgrestest.Open(t)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	counting := slowCounts{q, new(atomic.Int64)}
	s := siteOf(t, counting, web.Options{})
	s.want("", "No job is due and waiting.")
	if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", Queue: "mail", MaxAttempts: 1}); err != nil {
		t.Fatal(err)
	}
	fail(t, q, "mail", "broken pipe")
	if _, err := db.ExecContext(t.Context(), `INSERT INTO errand.jobs (queue, kind, scheduled_at) VALUES ('late', 'k', now() - interval '20 minutes')`); err != nil {
		t.Fatal(err)
	}
	for a := s.get(""); !strings.Contains(a.body, "The oldest due job of queue late has waited for 20 min.") || !strings.Contains(a.body, "broken pipe"); a = s.get("") {
		if counting.counted.Load() > 1 {
			t.Fatalf("the counts are read again, and the page does not say it:\n%s", a.body)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
