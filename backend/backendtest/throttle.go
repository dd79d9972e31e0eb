package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

func throttle(d time.Duration, jobs ...*queue.Job) []queue.Outcome {
	all := outcomes(queue.Release, jobs...)
	for i := range all {
		all[i].Delay, all[i].Throttle = d, true
	}
	return all
}

func testThrottled(t *testing.T, h Harness) {
	const d = 150 * time.Millisecond
	setRules(t, h, queue.Rule{Queue: "q", GroupRate: queue.Rate{Jobs: 1000, Burst: 50}})
	enqueue(t, h, slices.Concat(inGroup("a", 9), inGroup("b", 9))...)
	held := wantGroups(t, h, "first claim", request(4), map[string]int{"a": 2, "b": 2})
	wantGroups(t, h, "second claim", request(14), map[string]int{"a": 7, "b": 7})
	enqueue(t, h, inGroup("a", 7)...)
	began := time.Now()
	settle(t, h, throttle(d, held[:1]...)...)
	more := claimSoon(t, h, request(20), 1)
	if took := time.Since(began); took < d-time.Millisecond || len(more) > 20 {
		t.Errorf("after %v: %d jobs of a group that was throttled for %v", took, len(more), d)
	}
	for _, j := range append(more, claimSoon(t, h, request(20), 8-len(more))...) {
		if j.ID == held[0].ID && j.Attempt != 1 {
			t.Errorf("a throttled job has the attempt %d: want 1", j.Attempt)
		}
	}
	setRules(t, h, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1000, Burst: 50}})
	enqueue(t, h, inGroup("c", 3)...)
	one := claim(t, h, request(1))
	began = time.Now()
	settle(t, h, throttle(d, one...)...)
	claimSoon(t, h, request(20), 3)
	if took := time.Since(began); took < d-time.Millisecond {
		t.Errorf("the queue was throttled for %v, and claimed from after %v", d, took)
	}
	setRules(t, h, queue.Rule{Queue: "q", Running: 10000})
	enqueue(t, h, inGroup("d", 3)...)
	one = claim(t, h, request(1))
	settle(t, h, throttle(time.Hour, one...)...)
	wantGroups(t, h, "claim in a queue without rates", request(20), map[string]int{"d": 2})
}

// testThrottledHidden: a throttled group hides no other.
func testThrottledHidden(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", GroupRate: queue.Rate{Jobs: 1000, Burst: 50}})
	enqueue(t, h, slices.Concat(inGroup("a", 9), inGroup("b", 9))...)
	held := wantGroups(t, h, "first claim", request(4), map[string]int{"a": 2, "b": 2})
	settle(t, h, throttle(time.Hour, held[:1]...)...)
	wantGroups(t, h, "claim beside a throttled group", request(20), map[string]int{"b": 7})
}

// testThrottledThenChanged: a throttle ends with one token, also if the rate has a higher burst by
// then.
func testThrottledThenChanged(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1000, Burst: 1}})
	enqueue(t, h, newJobs(9, nil)...)
	settle(t, h, throttle(100*time.Millisecond, claim(t, h, request(1))...)...)
	setRules(t, h, queue.Rule{Queue: "q", Rate: aBurst(100)})
	if got := claimSoon(t, h, request(20), 1); len(got) != 1 {
		t.Errorf("claimed %d jobs after a throttle, want 1", len(got))
	}
	claimNone(t, h, "before the next token")
}

func testThrottledInTx(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Rate: queue.Rate{Jobs: 1000, Burst: 100}})
	enqueue(t, h, newJobs(9, nil)...)
	held := claim(t, h, request(2))
	tx := begin(t, h)
	settleIn(t, h, tx, throttle(time.Hour, held[0])...)
	commit(t, tx)
	claimNone(t, h, "after a throttle that was committed")
	wantHeld(t, h, "after a throttle by another job", held[1])
}

// testThrottledByHolder: ID, Fence and Worker are all that a throttle needs of a job, as when it
// comes through a gateway. It empties the bucket of the job's group or queue, and no bucket if the
// caller does not hold the job.
func testThrottledByHolder(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", GroupRate: queue.Rate{Jobs: 1000, Burst: 50}},
		queue.Rule{Queue: queue.DefaultQueue, Rate: queue.Rate{Jobs: 1000, Burst: 50}})
	enqueue(t, h, slices.Concat(inGroup("a", 4), inGroup("b", 4))...)
	other := newJobs(3, func(_ int, j *queue.Job) { j.Queue = queue.DefaultQueue })
	enqueue(t, h, other...)
	held := wantGroups(t, h, "first claim", request(4), map[string]int{"a": 2, "b": 2})
	inDefault := request(1)
	inDefault.Queues = []string{queue.DefaultQueue}
	theirs := claim(t, h, inDefault)

	job := held[0]
	for _, stale := range []queue.Job{
		{ID: job.ID, Fence: job.Fence + 1_000_000, Worker: job.Worker},
		{ID: job.ID, Fence: job.Fence, Worker: "other"},
		{ID: job.ID, Fence: job.Fence},
		{ID: other[2].ID, Fence: theirs[0].Fence, Worker: theirs[0].Worker},
		{ID: 1 << 40, Fence: 1, Worker: job.Worker, Queue: "q", Group: job.Group},
	} {
		lost, err := h.Queue.Settle(t.Context(), nil, throttle(time.Hour, &stale)...)
		if err != nil || len(lost) != 1 {
			t.Fatalf("Settle of a job that is not held: lost %d, error %v; want 1 and none", len(lost), err)
		}
	}
	wantGroups(t, h, "claim after throttles by others", request(2), map[string]int{"a": 1, "b": 1})

	settle(t, h, throttle(time.Hour, &queue.Job{ID: job.ID, Fence: job.Fence, Worker: job.Worker})...)
	rest := map[string]int{"a": 1, "b": 1}
	delete(rest, job.Group)
	wantGroups(t, h, "claim beside the throttled group", request(20), rest)
	if got := claim(t, h, inDefault); len(got) != 1 {
		t.Errorf("claim from a queue that no holder has throttled: got %d jobs, want 1", len(got))
	}
	settle(t, h, throttle(time.Hour, &queue.Job{ID: theirs[0].ID, Fence: theirs[0].Fence, Worker: theirs[0].Worker})...)
	if got := claim(t, h, inDefault); len(got) != 0 {
		t.Errorf("claim from a queue that was throttled without its name: got %d jobs, want none", len(got))
	}
}

func testThrottledHandler(t *testing.T, h Harness) {
	const d = 200 * time.Millisecond
	setRules(t, h, queue.Rule{Queue: "q", PerGroup: 1, GroupRate: queue.Rate{Jobs: 100, Burst: 1}})
	const total = 4
	enqueue(t, h, inGroup("g", total)...)
	done := make(chan struct{})
	var mu sync.Mutex
	var turnedAway time.Time
	ran := 0
	runFor(t, h, done, func(_ context.Context, j *queue.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if turnedAway.IsZero() {
			turnedAway = time.Now()
			return fmt.Errorf("wrapped: %w", queue.Throttle(d, errors.New("429")))
		}
		if since := time.Since(turnedAway); since < d || j.Attempt != 1 {
			t.Errorf("attempt %d of a job %v after a throttle of %v", j.Attempt, since, d)
		}
		if ran++; ran == total {
			close(done)
		}
		return nil
	})
	if ran != total {
		t.Errorf("%d of %d jobs ran", ran, total)
	}
}
