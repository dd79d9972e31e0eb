package browser

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/web"
)

// dashboard serves the dashboard of a queue, with dead jobs and others, and returns its address.
func dashboard(t *testing.T, dead int) (*memory.Queue, string) {
	t.Helper()
	q := memory.New(memory.Options{})
	jobs := make([]*queue.Job, dead)
	for i := range jobs {
		jobs[i] = &queue.Job{Kind: "k", MaxAttempts: 1}
	}
	if err := q.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
	failing := queue.HandlerFunc(func(context.Context, *queue.Job) error { return io.ErrUnexpectedEOF })
	if _, err := q.Drain(t.Context(), failing); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	h, err := web.New(q, web.Options{Authorize: web.Everyone(web.Admin), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	mux := http.NewServeMux()
	mux.Handle("/errand/", http.StripPrefix("/errand", h))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return q, server.URL + "/errand/"
}

// TestCrowd: sessions reach every page, follow its links, and get pages that have not changed
// without a body.
func TestCrowd(t *testing.T) {
	t.Parallel()
	_, root := dashboard(t, 100)
	crowd, err := NewCrowd(root, 3*len(walk))
	if err != nil {
		t.Fatal(err)
	}
	missing := func() (pages []string) {
		pages = append(slices.DeleteFunc(Pages(), func(page string) bool { return page == "jobs, completed" }), "a page that has not changed")
		for _, v := range crowd.Visits() {
			pages = slices.DeleteFunc(pages, func(page string) bool { return page == v.Page || v.Unchanged && page == "a page that has not changed" })
		}
		return pages
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for len(missing()) > 0 && ctx.Err() == nil {
			sleep(ctx, 100*time.Millisecond)
		}
		cancel()
	}()
	crowd.Browse(ctx, time.Second)
	if err := crowd.Failure(); err != nil {
		t.Error(err)
	}
	if pages := missing(); len(pages) > 0 {
		t.Errorf("nobody has seen %q", pages)
	}
	for _, v := range crowd.Visits() {
		if v.Took <= 0 || v.Failed {
			t.Errorf("visit %+v", v)
		}
	}
}

// TestCrowdOfLatePages: a visit is late if, and only if, the page says that values are old or not
// known yet.
func TestCrowdOfLatePages(t *testing.T) {
	t.Parallel()
	for says, late := range map[string]bool{`<p class="late" role="status">`: true, `<p class="awaits" role="status">`: true, `<p class="asof">`: false, "": false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a page"+says) }))
		defer server.Close()
		crowd, err := NewCrowd(server.URL+"/", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		go func() {
			for len(crowd.Visits()) == 0 && ctx.Err() == nil {
				sleep(ctx, time.Millisecond)
			}
			cancel()
		}()
		crowd.Browse(ctx, 0)
		if v := crowd.Visits(); len(v) != 1 || v[0].Late != late || v[0].Failed {
			t.Errorf("a page that says %q: got %+v", says, v)
		}
	}
}

// TestCrowdOfBrokenPages: what is no page is told.
func TestCrowdOfBrokenPages(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "a list")
	}))
	defer server.Close()
	crowd, err := NewCrowd(server.URL+"/", 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	crowd.Browse(ctx, 0)
	if v := crowd.Visits(); len(v) != 1 || !v[0].Failed || crowd.Failure() == nil {
		t.Errorf("got %+v, %v", v, crowd.Failure())
	}
}

// TestBulk: the action reaches all jobs of the preview, in one step or more.
func TestBulk(t *testing.T) {
	for _, dead := range []int{7, 1500} {
		q, root := dashboard(t, dead)
		bulk, err := NewBulk(t.Context(), root, "bulk?action=redrive&status=dead&queue=default")
		if err != nil {
			t.Fatal(err)
		}
		for !bulk.IsDone() {
			if err := bulk.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		left, _, err := q.Jobs(t.Context(), queue.Filter{Status: queue.StatusDead, Limit: 1})
		if err != nil || len(left) > 0 || bulk.Changed != dead {
			t.Errorf("%d dead jobs: %d changed, %d left, %v", dead, bulk.Changed, len(left), err)
		}
	}
}

func TestBulkOfNothing(t *testing.T) {
	_, root := dashboard(t, 0)
	if _, err := NewBulk(t.Context(), root, "bulk?action=redrive&status=dead&queue=default"); err == nil {
		t.Error("got nil, want an error")
	}
	if _, err := NewBulk(t.Context(), root, "bulk?action=nothing"); err == nil {
		t.Error("of an action that does not exist: got nil, want an error")
	}
}

// TestAssetSize: the files of a page are found, and far from the limit.
func TestAssetSize(t *testing.T) {
	_, root := dashboard(t, 0)
	size, err := AssetSize(t.Context(), root)
	if err != nil || size < 1000 || size > 60_000 {
		t.Errorf("got %d bytes, %v", size, err)
	}
}
