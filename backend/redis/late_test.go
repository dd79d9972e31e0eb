package redis_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// TestManyDueAtOnce: more jobs become due at once than one claim makes due, and behind them a job
// of the only kind that the worker takes. The worker does not sleep before it has that job.
func TestManyDueAtOnce(t *testing.T) {
	b := open(t, redistest.Open(t), redis.Options{Partitions: 1})
	at := time.Now().Add(time.Second)
	jobs := newJobs(10_501)
	for _, j := range jobs {
		j.Payload, j.ScheduledAt = nil, at
	}
	last := jobs[10_500]
	last.Kind, last.ScheduledAt = "last", at.Add(time.Millisecond)
	enqueueAll(t, b, jobs)
	time.Sleep(time.Until(last.ScheduledAt))
	req := request(1)
	req.Kinds = []string{"last"}
	for range len(jobs) {
		found, err := b.Claim(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			return
		}
		if next, err := b.Sleep(t.Context(), "w", []string{"q"}); err != nil || next < 0 {
			t.Fatalf("Sleep: got %v, error %v; want a time, for a job is due", next, err)
		}
	}
	t.Fatalf("%d claims have not found the job", len(jobs))
}

// TestThrottledIsKept: a bucket that is throttled is stored until it is full, so that its tokens
// come one by one although no job has come for long.
func TestThrottledIsKept(t *testing.T) {
	client := redistest.Open(t)
	b := open(t, client, redis.Options{Partitions: 1})
	rate := queue.Rate{Jobs: 1, Per: time.Hour, Burst: 10}
	if err := b.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Rate: rate}); err != nil {
		t.Fatal(err)
	}
	if err := b.Enqueue(t.Context(), nil, newJobs(1)...); err != nil {
		t.Fatal(err)
	}
	o := queue.Outcome{Job: wantClaim(t, b, 1)[0], Action: queue.Release, Throttle: true, Delay: 2 * time.Hour}
	settled := time.Now()
	if _, err := b.Settle(t.Context(), nil, o); err != nil {
		t.Fatal(err)
	}
	k := keysOf(client, b)
	m := k.do(t, "PTTL", k.base+"tokens:q\x00")
	ms, err := m.AsInt64()
	if left := 11*time.Hour - time.Since(settled); err != nil || ms < left.Milliseconds() {
		t.Errorf("the bucket is stored for %v, error %v; want %v, when it is full", time.Duration(ms)*time.Millisecond, err, left)
	}
}
