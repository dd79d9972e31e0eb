package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// TestEditStaysInPartition: a job does not move to a queue of another partition, and nothing of
// such an edit is done.
func TestEditStaysInPartition(t *testing.T) {
	for _, spread := range []int{1, 3} {
		b := open(t, redistest.Open(t), redis.Options{Partitions: 8, Spread: spread})
		job := &queue.Job{Queue: "q", Kind: "k", Delay: time.Hour}
		if err := b.Enqueue(t.Context(), nil, job); err != nil {
			t.Fatal(err)
		}
		far := ""
		for i := 0; far == "" || redis.FirstOf(b, far) == redis.FirstOf(b, "q"); i++ {
			far = fmt.Sprint("far", i)
		}
		for _, c := range []struct {
			which queue.Selection
			field string
		}{
			{queue.Selection{Queue: "q"}, "Queue"}, {queue.Selection{IDs: []int64{job.ID}}, "Queue"}, {queue.Selection{Kind: "k"}, "Selection.Queue"},
		} {
			n, err := b.Edit(t.Context(), nil, c.which, queue.JobChange{RunNow: true, Queue: far})
			if e, ok := errors.AsType[*queue.InvalidError](err); !ok || e.Field != c.field || n != 0 {
				t.Errorf("Edit(%+v) to a far queue: got %d, error %v; want an InvalidError of %s", c.which, n, err, c.field)
			}
		}
		if r, ok, err := b.Job(t.Context(), job.ID); err != nil || !ok || r.Queue != "q" || time.Until(r.ScheduledAt) < time.Minute {
			t.Errorf("after such edits: got %+v, error %v; want the job as it was", r, err)
		}
	}
}

// TestReassignPart: one of two partitions fails. Reassign says so, and changes no job's Worker.
func TestReassignPart(t *testing.T) {
	p := newParted(t, redis.Options{})
	p.fill(t)
	jobs, err := p.Claim(t.Context(), request(10))
	if err != nil || len(jobs) != 6 {
		t.Fatalf("Claim: got %d jobs, error %v; want 6", len(jobs), err)
	}
	p.deny(t)
	to := slices.Repeat([]string{"v"}, len(jobs))
	if left, err := p.Reassign(t.Context(), to, jobs...); err == nil || left != nil {
		t.Errorf("Reassign: left %d, error %v; want an error", len(left), err)
	}
	for _, j := range jobs {
		if j.Worker != "w" {
			t.Errorf("worker after an error: got %q, want w", j.Worker)
		}
	}
	p.allow(t)
	lost, _, err := p.Extend(t.Context(), time.Minute, jobs...)
	if err != nil || len(lost) != 3 || len(inSecond(lost)) != 0 {
		t.Errorf("Extend after it: lost %d, error %v; want those of the first partition, which v holds", len(lost), err)
	}
}
