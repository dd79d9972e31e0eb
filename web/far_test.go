package web_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
)

// far is a queue that looks at a bounded number of jobs a call, and finds dead ones only in the
// second call.
type far struct{ *memory.Queue }

const farNext = 1_000_000

func (q far) Jobs(ctx context.Context, f queue.Filter) ([]queue.Record, int64, error) {
	if f.Status == queue.StatusDead && f.Before == 0 {
		return nil, farNext, nil
	}
	return q.Queue.Jobs(ctx, f)
}

// TestFar: no page says that there are no jobs if older ones have not been looked at.
func TestFar(t *testing.T) {
	q := far{memory.New(memory.Options{})}
	for range 3 {
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", MaxAttempts: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Drain(t.Context(), queue.HandlerFunc(func(context.Context, *queue.Job) error { return context.Canceled })); err != nil {
		t.Fatal(err)
	}
	h := newHandler(t, q)
	if got := page(h, "/"); !strings.Contains(got, "All dead jobs") || strings.Contains(got, "No job is dead") {
		t.Errorf("overview:\n%s", got)
	}
	wantTexts(t, page(h, "/jobs?status=dead"), []string{"No job found here", "Look further"})
	wantTexts(t, page(h, "/bulk?action=redrive&status=dead"), []string{"<strong>3 jobs.</strong>", `name="ids" value="3,2,1"`})
}

// empty is a queue that takes a while to look at a bounded number of jobs, and finds dead ones only
// below emptyUntil.
type empty struct{ *memory.Queue }

const emptyUntil = 100

func (q empty) Jobs(ctx context.Context, f queue.Filter) ([]queue.Record, int64, error) {
	if f.Status != queue.StatusDead || f.Before != 0 && f.Before <= emptyUntil {
		return q.Queue.Jobs(ctx, f)
	}
	time.Sleep(60 * time.Millisecond)
	next := f.Before - 1000
	if f.Before == 0 {
		next = 8000
	}
	return nil, max(next, emptyUntil), nil
}

// TestFarPreview: a preview does not look for jobs for long. It says where it has stopped, offers
// no action yet, and the next one goes on from there.
func TestFarPreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := empty{memory.New(memory.Options{})}
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", MaxAttempts: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Drain(t.Context(), queue.HandlerFunc(func(context.Context, *queue.Job) error { return context.Canceled })); err != nil {
			t.Fatal(err)
		}
		h := newHandler(t, q)
		for _, step := range []struct{ from, to string }{{"", "&amp;before=5000"}, {"&before=5000", "&amp;before=1000"}} {
			began := time.Now()
			got := page(h, "/bulk?action=redrive&status=dead"+step.from)
			if took := time.Since(began); took > 250*time.Millisecond {
				t.Errorf("from %q: took %v", step.from, took)
			}
			wantTexts(t, got, []string{awaits, "The jobs are being counted"})
			got = settled(h, "/bulk?action=redrive&status=dead"+step.from)
			if took := time.Since(began); took > 300*time.Millisecond {
				t.Errorf("from %q: the preview took %v", step.from, took)
			}
			wantTexts(t, got, []string{"No job found here yet", "Look further", step.to})
			if strings.Contains(got, `method="post" action="./bulk"`) {
				t.Errorf("from %q: the action can be confirmed:\n%s", step.from, got)
			}
		}
		wantTexts(t, page(h, "/bulk?action=redrive&status=dead&before=1000"), []string{"<strong>1 job.</strong>", `name="ids" value="1"`})
	})
}
