package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
)

// TestWatch: tail tells what happens to jobs between two looks, once.
func TestWatch(t *testing.T) {
	ctx := t.Context()
	q := memory.New(memory.Options{})
	enqueue := func(n int) {
		for range n {
			if err := q.Enqueue(ctx, nil, &queue.Job{Kind: "kind"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	claim := func(n int) []*queue.Job {
		jobs, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"default"}, Limit: n, Lease: time.Minute, Worker: "w"})
		if err != nil || len(jobs) != n {
			t.Fatalf("claimed %d, %v, want %d", len(jobs), err, n)
		}
		return jobs
	}
	settle := func(outcomes ...queue.Outcome) {
		if lost, err := q.Settle(ctx, nil, outcomes...); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
	}
	cancel := func(id int64) {
		if n, err := q.Cancel(ctx, nil, queue.Selection{IDs: []int64{id}}); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
	failure := errors.New("down")
	w := watch{inspector: q}
	var jobs []*queue.Job
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { enqueue(3) }, ""}, // the first look
		{func() { enqueue(1) }, "enqueued 4"},
		{func() { jobs = claim(2) }, "started 1, started 2"},
		{func() {}, ""},
		{func() {
			settle(queue.Outcome{Job: jobs[0], Action: queue.Done}, queue.Outcome{Job: jobs[1], Action: queue.Dead, Err: failure})
		}, "completed 1, dead 2 down"},
		{func() {
			jobs = claim(2)
			settle(queue.Outcome{Job: jobs[1], Action: queue.Done})
		}, "started 3"}, // 4 is older, and began and ended meanwhile
		{func() { settle(queue.Outcome{Job: jobs[0], Action: queue.Retry, Err: failure}) }, "returned 3 down"},
		{func() {
			jobs = claim(1)
			settle(queue.Outcome{Job: jobs[0], Action: queue.Done})
			enqueue(1)
			settle(queue.Outcome{Job: claim(1)[0], Action: queue.Done})
		}, "enqueued 5, completed 5"},
		{func() { enqueue(2); cancel(6) }, "enqueued 6, enqueued 7, cancelled 6"},
		{func() { cancel(7) }, "cancelled 7"},
		{func() {}, ""},
		{func() {
			enqueue(1)
			jobs = claim(1)
		}, "enqueued 8, started 8"},
		{func() {
			cancel(8)
			settle(queue.Outcome{Job: jobs[0], Action: queue.Retry, Err: failure})
		}, "cancelled 8 down"},
	} {
		step.do()
		if got := look(ctx, t, &w); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}

func look(ctx context.Context, t *testing.T, w *watch) string {
	t.Helper()
	changes, err := w.look(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, c := range changes {
		if c.What == "enqueued" && c.Attempt != 0 {
			t.Errorf("job %d was enqueued with attempt %d", c.ID, c.Attempt)
		}
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %d %s", c.What, c.ID, c.Error)))
	}
	return strings.Join(texts, ", ")
}
