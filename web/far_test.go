package web_test

import (
	"context"
	"strings"
	"testing"

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
	wantTexts(t, page(h, "/bulk?action=retry&status=dead"), []string{"<strong>3 jobs.</strong>", `name="ids" value="3,2,1"`})
}
