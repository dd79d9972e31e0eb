package web_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/web"
)

// slow is a queue whose counts take a while, or fail, and whose lists take a while.
type slow struct {
	*memory.Queue
	calls, lists     atomic.Int64
	takes, listTakes atomic.Int64
	fails            atomic.Bool
}

func (q *slow) Jobs(ctx context.Context, f queue.Filter) ([]queue.Record, int64, error) {
	q.lists.Add(1)
	time.Sleep(time.Duration(q.listTakes.Load()))
	return q.Queue.Jobs(ctx, f)
}

func (q *slow) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	q.calls.Add(1)
	select {
	case <-time.After(time.Duration(q.takes.Load())):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if q.fails.Load() {
		return nil, errors.New("broken, with a secret")
	}
	return q.Queue.Counts(ctx)
}

// page gets a page without a server, so that it works in a bubble.
func page(h http.Handler, path string) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Body.String()
}

// settled gets a page, and gets it again while it says that values are being read.
func settled(h http.Handler, path string) string {
	for {
		if got := page(h, path); !strings.Contains(got, awaits) {
			return got
		}
	}
}

// TestShared: twenty sessions read the database as often as one, at most each two seconds and not
// longer than a thirtieth of the time, and nobody reads while nobody watches.
func TestShared(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		q := &slow{Queue: memory.New(memory.Options{})}
		h := newHandler(t, q)
		watch := func(sessions int, takes, length time.Duration) int64 {
			q.takes.Store(int64(takes))
			before := q.calls.Load()
			var all sync.WaitGroup
			for i := range sessions {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 50 * time.Millisecond)
					for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Second) {
						page(h, "/")
					}
				})
			}
			all.Wait()
			synctest.Wait()
			return q.calls.Load() - before
		}
		if n := watch(20, time.Millisecond, time.Minute); n < 20 || n > 31 {
			t.Errorf("%d readings in a minute", n)
		}
		if n := watch(20, time.Second, 10*time.Minute); n < 3 || n > 4 {
			t.Errorf("%d readings that take a second, in ten minutes, want a two-hundredth of the time", n)
		}
		time.Sleep(time.Hour)
		if n := watch(0, 0, 0); n != 0 {
			t.Errorf("%d readings without a session", n)
		}
	})
}

// TestHeavy: readings that take long share a two-hundredth of the time, and do not hold up others.
func TestHeavy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slow{Queue: memory.New(memory.Options{})}
		q.takes.Store(int64(100 * time.Millisecond))
		h := newHandler(t, q)
		watch := func(length time.Duration, pages ...string) (counts, lists int64) {
			time.Sleep(2 * time.Minute) // what was heavy before is forgotten
			counts, lists = q.calls.Load(), q.lists.Load()
			for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Second) {
				for _, path := range pages {
					page(h, path)
				}
			}
			return q.calls.Load() - counts, q.lists.Load() - lists
		}
		if counts, _ := watch(5*time.Minute, "/queues"); counts < 12 || counts > 16 {
			t.Errorf("%d readings that take 100 ms in five minutes, want 15 or so", counts)
		}
		if counts, lists := watch(5*time.Minute, "/queues", "/jobs?queue=mail"); counts < 12 || lists < 90 {
			t.Errorf("%d counts and %d lists, which are light, in five minutes", counts, lists)
		}
		q.listTakes.Store(int64(100 * time.Millisecond))
		if counts, lists := watch(5*time.Minute, "/queues", "/jobs?queue=mail"); counts < 6 || counts > 9 || lists < 6 || lists > 9 {
			t.Errorf("%d counts and %d lists that take 100 ms each, in five minutes, want 7 or so", counts, lists)
		}
	})
}

// TestLight: many light readings together take no more than a two-hundredth of the time, but a page
// is not older than ten seconds because of them.
func TestLight(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		q := &slow{Queue: memory.New(memory.Options{})}
		q.listTakes.Store(int64(4 * time.Millisecond))
		h := newHandler(t, q)
		watch := func(pages int) int64 {
			time.Sleep(2 * time.Minute) // what was read before is forgotten
			before := q.lists.Load()
			for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
				for i := range pages {
					page(h, "/jobs?queue=q"+strconv.Itoa(i))
				}
			}
			return q.lists.Load() - before
		}
		if n := watch(1); n < 90 || n > 150 {
			t.Errorf("one list was read %d times in five minutes, want each two or three seconds", n)
		}
		if n := watch(5); n < 5*60 || n > 5*80 {
			t.Errorf("five lists were read %d times in five minutes, want each four or five seconds", n)
		}
		if n := watch(20); n < 20*25 || n > 20*32 {
			t.Errorf("20 lists were read %d times in five minutes, want each ten seconds", n)
		}
	})
}

// TestPatience: a page does not wait for one reading after the other.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slow{Queue: memory.New(memory.Options{})}
		h := newHandler(t, q)
		page(h, "/")
		time.Sleep(3 * time.Second)
		q.takes.Store(int64(time.Second))
		q.listTakes.Store(int64(time.Second))
		began := time.Now()
		wantTexts(t, page(h, "/"), []string{"All well"})
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the page took %v", took)
		}
		time.Sleep(5 * time.Second) // what is read
	})
}

// newHandler returns a dashboard that everybody may use.
func newHandler(t *testing.T, q queue.Enqueuer) *web.Handler {
	t.Helper()
	h, err := web.New(q, web.Options{Authorize: web.Everyone(web.Admin), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// TestLate: a database that does not answer leaves the last values, with their age.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slow{Queue: memory.New(memory.Options{})}
		h := newHandler(t, q)
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "a", Queue: "mail"}); err != nil {
			t.Fatal(err)
		}
		q.fails.Store(true)
		if got := page(h, "/"); !strings.Contains(got, "has answered with an error") || strings.Contains(got, "secret") {
			t.Errorf("at first: %s", got)
		}
		q.fails.Store(false)
		time.Sleep(3 * time.Second)
		if got := page(h, "/"); !strings.Contains(got, "mail") || strings.Contains(got, "as of") {
			t.Errorf("it answers: %s", got)
		}
		q.takes.Store(int64(time.Hour))
		time.Sleep(10 * time.Second)
		began := time.Now()
		page(h, "/")
		if took := time.Since(began); took > time.Second {
			t.Errorf("a page waits for %v", took)
		}
		time.Sleep(5 * time.Second)
		if got := page(h, "/"); !strings.Contains(got, "mail") || !strings.Contains(got, "Counts: as of 15 s ago") {
			t.Errorf("it hangs: %s", got)
		}
		q.takes.Store(0)
		time.Sleep(time.Minute)
		if got := page(h, "/"); strings.Contains(got, "as of") {
			t.Errorf("it answers again: %s", got)
		}
	})
}

// TestOld: a page that is opened after a long time says how old its values are. It has new ones as
// soon as the database has answered.
func TestOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slow{Queue: memory.New(memory.Options{})}
		h := newHandler(t, q)
		page(h, "/")
		time.Sleep(time.Hour)
		q.takes.Store(int64(time.Second))
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "a", Queue: "rare", Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
		wantTexts(t, page(h, "/"), []string{"Being read: counts (as of 1 h ago).", "Counts as of 1 h ago", `data-every="1"`})
		time.Sleep(time.Second)
		wantTexts(t, page(h, "/"), []string{"queues/rare", `data-every="3"`})
	})
}

// TestFirstLook: a page of which nothing is known yet comes at once, and neither says that there is
// nothing nor offers to change what it does not know. It has the values when they are read.
func TestFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slowAll{Queue: memory.New(memory.Options{})}
		if err := q.SetRules(t.Context(), nil, queue.Rule{Queue: "mail", Running: 2}); err != nil {
			t.Fatal(err)
		}
		job := &queue.Job{Kind: "k", Queue: "mail", MaxAttempts: 1}
		if err := q.Enqueue(t.Context(), nil, job); err != nil {
			t.Fatal(err)
		}
		fail(t, q, "mail", "broken pipe")
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", Queue: "mail"}); err != nil {
			t.Fatal(err)
		}
		q.takes.Store(int64(200 * time.Millisecond))
		for path, texts := range map[string][2]string{
			"/": {"counts (not known yet)", "No workers"}, "/jobs": {"jobs (not known yet)", "jobs/1"}, "/kinds": {"kinds (not known yet)", "broken pipe"},
			"/kinds/k": {"errors (not known yet)", "broken pipe"}, "/queues": {"counts (not known yet)", "queues/mail"},
			"/queues/mail": {"limits and pauses (not known yet)", `name="running" inputmode="numeric" value="2"`},
			"/jobs/2":      {"This is being found out.", "No worker is alive"}, "/bulk?action=redrive&status=dead": {"The jobs are being counted", "<strong>1 job.</strong>"},
		} {
			h := newHandler(t, q)
			began := time.Now()
			got := page(h, path)
			if took := time.Since(began); took > 200*time.Millisecond {
				t.Errorf("%s took %v", path, took)
			}
			wantTexts(t, got, []string{awaits, texts[0], `data-every="1"`})
			for _, none := range []string{">0</span>", "none due", "newest 0 jobs", "No limits", `name="running"`, "All well", "No job is", "No queue", `<button name="paused"`, `action="./bulk"`} {
				if strings.Contains(got, none) {
					t.Errorf("%s says or offers %q:\n%s", path, none, got)
				}
			}
			wantTexts(t, settled(h, path), []string{texts[1]})
		}
	})
}

// slowAll is a queue of which all that pages share takes as long as takes says.
type slowAll struct {
	*memory.Queue
	takes atomic.Int64
}

func (q *slowAll) wait() { time.Sleep(time.Duration(q.takes.Load())) }

func (q *slowAll) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	q.wait()
	return q.Queue.Counts(ctx)
}

func (q *slowAll) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	q.wait()
	return q.Queue.Backlogs(ctx)
}

func (q *slowAll) Rules(ctx context.Context) ([]queue.Rule, error) {
	q.wait()
	return q.Queue.Rules(ctx)
}

func (q *slowAll) PausedKinds(ctx context.Context) ([]string, error) {
	q.wait()
	return q.Queue.PausedKinds(ctx)
}

func (q *slowAll) Jobs(ctx context.Context, f queue.Filter) ([]queue.Record, int64, error) {
	q.wait()
	return q.Queue.Jobs(ctx, f)
}

// TestUnknown: where nothing could be read, no page says that there is nothing, or none.
func TestUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := broken{memory.New(memory.Options{})}
		if err := q.SetRules(t.Context(), nil, queue.Rule{Queue: "mail", Running: 2}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "report"}, true); err != nil {
			t.Fatal(err)
		}
		h := newHandler(t, q)
		for path, text := range map[string]string{"/": "Dead jobs: not known yet", "/jobs": "Jobs: not known yet", "/kinds": "Kinds: not known yet",
			"/kinds/mail": "Errors: not known yet", "/queues": "Counts: not known yet", "/queues/mail": "Running jobs: not known yet"} {
			got := page(h, path)
			wantTexts(t, got, []string{"has answered with an error", text})
			for _, none := range []string{`class="empty"`, ">0</span>", "none due", "newest 0 jobs"} {
				if strings.Contains(got, none) {
					t.Errorf("%s says that there is nothing, by %q:\n%s", path, none, got)
				}
			}
		}
		wantTexts(t, page(h, "/queues"), []string{"queues/mail", "2 at once", `<span class="muted">–</span>`, "status=dead\">–</a>"})
	})
}

// broken is a queue that cannot be read.
type broken struct{ *memory.Queue }

func (broken) Counts(context.Context) ([]queue.StatusCount, error) { return nil, errors.New("broken") }

func (broken) Backlogs(context.Context) ([]driver.Backlog, error) { return nil, errors.New("broken") }

func (broken) Jobs(context.Context, queue.Filter) ([]queue.Record, int64, error) {
	return nil, 0, errors.New("broken")
}

// TestNotModified: a page that has not changed is not sent again.
func TestNotModified(t *testing.T) {
	s := newSite(t, web.Options{})
	first := s.want("")
	again := s.do("GET", "", "", map[string]string{"If-None-Match": first.header.Get("ETag")})
	if again.status != http.StatusNotModified || again.body != "" {
		t.Errorf("status %d", again.status)
	}
	s.enqueue(&queue.Job{Kind: "a"})
	s.post("jobs/1/cancel", "")
	if a := s.do("GET", "", "", map[string]string{"If-None-Match": first.header.Get("ETag")}); a.status != http.StatusOK {
		t.Errorf("changed: status %d", a.status)
	}
}

// wantTexts fails the test unless the page has all texts.
func wantTexts(t *testing.T, page string, texts []string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}
}
