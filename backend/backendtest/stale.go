package backendtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/errandhq/errand/queue"
)

var staleCases = []testCase{
	{"every operation without holding the job", anything, testNotHeld},
	{"settling twice", anything, testSettleTwice},
	{"after a reclaim", anything, testStaleAfterReclaim},
	{"a stale claim beside a current one of the fence that replaced it", anything, testCrossedFences},
	{"a stale job does not hinder its batch", anything, testStaleInBatch},
	{"never claimed, or unknown", anything, testNeverClaimed},
	{"after the lease, before a reclaim", hasReclaimer, testLateHolder},
}

// holderOperation is an operation that only the holder of a job may do.
type holderOperation struct {
	name string
	do   func(ctx context.Context, h Harness, jobs ...*queue.Job) (lost []*queue.Job, err error)
}

var holderOperations = []holderOperation{
	{"Extend", func(ctx context.Context, h Harness, jobs ...*queue.Job) ([]*queue.Job, error) {
		lost, _, err := h.Queue.Extend(ctx, 2*longLease, jobs...)
		return lost, err
	}},
	settling(queue.Done), settling(queue.Retry), settling(queue.Dead), settling(queue.Release),
}

func settling(action queue.OutcomeAction) holderOperation {
	return holderOperation{fmt.Sprintf("Settle %v", action),
		func(ctx context.Context, h Harness, jobs ...*queue.Job) ([]*queue.Job, error) {
			batch := outcomes(action, jobs...)
			for i := range batch {
				batch[i].Err = errors.New("late")
			}
			return h.Queue.Settle(ctx, nil, batch...)
		}}
}

// wantLost checks that every operation reports job as lost to the caller who presents it, and
// changes nothing.
func wantLost(t *testing.T, h Harness, what string, job *queue.Job) {
	t.Helper()
	before, _ := lookUp(t, h, job.ID)
	for _, v := range holderOperations {
		lost, err := v.do(t.Context(), h, job)
		if err != nil {
			t.Fatalf("%s with %s: error %v, want the job lost", v.name, what, err)
		}
		wantIDs(t, fmt.Sprintf("lost by %s with %s", v.name, what), lost, []*queue.Job{job})
		if lost[0] != job {
			t.Errorf("lost by %s with %s: got another pointer than the caller's, by which a Worker knows its jobs", v.name, what)
		}
		wantUnchanged(t, h, fmt.Sprintf("%s with %s", v.name, what), before)
	}
}

func testNotHeld(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(2, nil)...)
	other := claim(t, h, request(1))[0]
	first := claimOne(t, h)
	settle(t, h, queue.Outcome{Job: first, Action: queue.Release})
	wantLost(t, h, "an older fence, the job pending", first)
	current := claimOne(t, h)
	wantLost(t, h, "an older fence", first)

	change := func(what string, set func(j *queue.Job)) {
		job := *current
		set(&job)
		wantLost(t, h, what, &job)
	}
	change("a fence that was never drawn", func(j *queue.Job) { j.Fence += 1_000_000 })
	change("fence 0", func(j *queue.Job) { j.Fence = 0 })
	change("another claim's fence", func(j *queue.Job) { j.Fence = other.Fence })
	change("another worker", func(j *queue.Job) { j.Worker = "someone" })
	change("another case of the worker", func(j *queue.Job) { j.Worker = "W" })
	change("another job's ID", func(j *queue.Job) { j.ID = other.ID })
	settle(t, h, outcomes(queue.Done, current, other)...)
}

func testSettleTwice(t *testing.T, h Harness) {
	for _, v := range holderOperations[1:] {
		enqueue(t, h, newJob())
		job := claimOne(t, h)
		if lost, err := v.do(t.Context(), h, job); err != nil || len(lost) != 0 {
			t.Fatalf("%s: lost %v, error %v; want neither", v.name, ids(lost), err)
		}
		wantLost(t, h, "a job after "+v.name, job)
		for _, j := range claim(t, h, request(1)) { // after Retry and Release
			wantLost(t, h, "the claim before, after "+v.name, job)
			settle(t, h, queue.Outcome{Job: j, Action: queue.Done})
			wantLost(t, h, "the claim before, the job done", job)
		}
	}
}

// testLateHolder: the fence decides, not the clock. Until a job is reclaimed it belongs to its
// holder, however late.
func testLateHolder(t *testing.T, h Harness) {
	for _, v := range holderOperations {
		enqueue(t, h, newJob())
		job := claim(t, h, short(request(1)))[0]
		after := newJob()
		after.Queue, after.Delay = "clock", shortLease
		enqueue(t, h, after)
		req := request(1)
		req.Queues = []string{"clock"}
		settle(t, h, outcomes(queue.Done, claimSoon(t, h, req, 1)...)...) // now the lease is over
		if lost, err := v.do(t.Context(), h, job); err != nil || len(lost) != 0 {
			t.Errorf("%s after the lease expired, and before the job was reclaimed: lost %v, error %v; want neither", v.name, ids(lost), err)
		}
		for _, j := range claim(t, h, request(1)) { // after Retry and Release
			job = j
		}
		_, _ = h.Queue.Settle(t.Context(), nil, queue.Outcome{Job: job}) // where it is still held
	}
}

func testStaleAfterReclaim(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	late := claim(t, h, short(request(1)))[0]
	taken := awaitReclaim(t, h, 1)
	for range taken {
		wantLost(t, h, "a job that was reclaimed", late)
	}
	current := claimSoon(t, h, request(1), 1)[0]
	wantLost(t, h, "a job that was reclaimed and claimed again by the same worker", late)
	settle(t, h, queue.Outcome{Job: current, Action: queue.Done})
}

// testCrossedFences catches statements that match IDs and fences separately: the stale job's row
// has a fence of the batch and the same worker, but that is not the stale claim's fence.
func testCrossedFences(t *testing.T, h Harness) {
	for _, v := range holderOperations {
		enqueue(t, h, newJobs(2, nil)...)
		stale := claim(t, h, request(1))[0]
		settle(t, h, queue.Outcome{Job: stale, Action: queue.Release})
		both := claimAll(t, h, 2) // one claim: one fence
		again, companion := both[0], both[1]
		if again.ID != stale.ID {
			again, companion = companion, again
		}
		before, _ := lookUp(t, h, stale.ID)
		lost, err := v.do(t.Context(), h, stale, companion)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		what := fmt.Sprintf("%s of job %d with the stale fence %d and job %d with fence %d, where both are held with fence %d",
			v.name, stale.ID, stale.Fence, companion.ID, companion.Fence, again.Fence)
		wantIDs(t, "lost by "+what, lost, []*queue.Job{stale})
		wantUnchanged(t, h, what, before)
		settle(t, h, queue.Outcome{Job: again, Action: queue.Done})
		finishAll(t, h, companion)
	}
}

func testStaleInBatch(t *testing.T, h Harness) {
	for _, v := range holderOperations {
		enqueue(t, h, newJobs(5, nil)...)
		held := claimAll(t, h, 5)
		one, three := *held[1], *held[3]
		one.Fence++
		three.Worker = "someone"
		lost, err := v.do(t.Context(), h, held[0], &one, held[2], &three, held[4])
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		wantSameIDs(t, "lost by "+v.name+" of five jobs, of which two are not held", lost, []*queue.Job{&one, &three})
		settle(t, h, outcomes(queue.Done, held[1], held[3])...)
		finishAll(t, h, held[0], held[2], held[4])
	}
}

// finishAll completes jobs that may be held or released.
func finishAll(t *testing.T, h Harness, jobs ...*queue.Job) {
	t.Helper()
	jobs = append(claim(t, h, request(len(jobs))), jobs...)
	for _, j := range jobs {
		if _, err := h.Queue.Settle(t.Context(), nil, queue.Outcome{Job: j, Action: queue.Done}); err != nil {
			t.Fatalf("Settle of what is left: %v", err)
		}
	}
}

func testNeverClaimed(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	wantLost(t, h, "a job that was never claimed", j)
	unknown := *claimOne(t, h)
	unknown.ID += 1_000_000
	wantLost(t, h, "an ID that no job has", &unknown)
	unknown.ID = -1
	wantLost(t, h, "a negative ID", &unknown)
}
