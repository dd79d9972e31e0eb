package backendtest

import (
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

func testDebounce(t *testing.T, h Harness) {
	first, second, third := replacing("a"), replacing("a"), replacing("a")
	second.Delay, third.ScheduledAt = time.Hour, time.Now().Add(-time.Hour)
	enqueue(t, h, first)
	enqueue(t, h, second)
	wantReplaced(t, "that is due", second, first)
	claimNone(t, h, "after a job was put off")
	enqueue(t, h, third)
	wantReplaced(t, "that is not due", third, first)
	wantClaimed(t, claimOne(t, h), third)
}

// scheduled returns how long after its creation the job is due.
func scheduled(t *testing.T, h Harness, id int64) time.Duration {
	t.Helper()
	rec, _ := lookUp(t, h, id)
	return rec.ScheduledAt.Sub(rec.CreatedAt)
}

func testMaxDelay(t *testing.T, h Harness) {
	first, second, third := replacing("a"), replacing("a"), replacing("a")
	for _, j := range []*queue.Job{first, second, third} {
		j.Delay, j.MaxDelay = time.Hour, time.Hour
	}
	third.MaxDelay = 2 * time.Hour
	enqueue(t, h, first)
	before := scheduled(t, h, first.ID)
	time.Sleep(20 * time.Millisecond)
	enqueue(t, h, second)
	wantReplaced(t, "with a MaxDelay", second, first)
	if got := scheduled(t, h, first.ID); got > before || got < time.Hour-time.Millisecond {
		t.Errorf("job with a MaxDelay of an hour, replaced: due after %v, want after an hour", got)
	}
	enqueue(t, h, third)
	if got := scheduled(t, h, first.ID); got < time.Hour+20*time.Millisecond || got > time.Hour+patience {
		t.Errorf("job with a Delay of an hour, replaced within its MaxDelay: due after %v, want an hour and 20 ms to %v", got, patience)
	}
}

// testMaxDelayOver: once MaxDelay is over the job is due, and keeps its place from then on. A job
// that has been tried begins anew.
func testMaxDelayOver(t *testing.T, h Harness) {
	debounced := func() *queue.Job {
		j := replacing("a")
		j.Delay, j.MaxDelay = 100*time.Millisecond, 100*time.Millisecond
		return j
	}
	first := debounced()
	enqueue(t, h, first)
	poll(t, "a job that is replaced again and again to be due", func() bool {
		next := debounced()
		enqueue(t, h, next)
		wantReplaced(t, "with a MaxDelay", next, first)
		rec, _ := lookUp(t, h, first.ID)
		return time.Since(rec.CreatedAt) > 300*time.Millisecond
	})
	if got := scheduled(t, h, first.ID); got > 150*time.Millisecond {
		t.Errorf("job with a MaxDelay of 100ms, replaced for 300ms: due after %v", got)
	}
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Retry, Delay: time.Hour})
	enqueue(t, h, debounced())
	if got := scheduled(t, h, first.ID); got < 99*time.Millisecond || got > patience {
		t.Errorf("job that was replaced after its first attempt: due %v after its CreatedAt, want 100ms", got)
	}
}
