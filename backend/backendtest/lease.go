package backendtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var leaseCases = []testCase{
	{"an expired lease is reclaimed, a live one is not", anything, testExpiredLease},
	{"extending keeps a job", anything, testExtendKeeps},
	{"extending counts from now", anything, testExtendShortens},
	{"what a reclaim returns", hasReclaimer, testReclaimReturns},
	{"the limit of a reclaim", hasReclaimer, testReclaimLimit},
	{"reclaimed at the last attempt", hasReclaimer, testReclaimDead},
	{"reclaim frees the key of a dead job", hasReclaimer, testReclaimFreesKey},
	{"deaths by a crash are told once", hasDeathTeller, testDeaths},
	{"claimed jobs are given to other workers", hasReassigner, testReassign},
	{"jobs that are not held are given to nobody", hasReassigner, testReassignNotHeld},
	{"the record of a lease", hasInspector, testLeaseRecord},
}

func testExpiredLease(t *testing.T, h Harness) {
	jobs := newJobs(2, nil)
	enqueue(t, h, jobs...)
	alive := claim(t, h, request(1)) // first: the short lease may be over before the next call
	start := time.Now()
	crashed := claim(t, h, short(request(1)))
	wantIDs(t, "first claim", alive, jobs[:1])
	wantIDs(t, "second claim", crashed, jobs[1:])

	awaitReclaim(t, h, 1)
	req := request(2)
	req.Worker = "another"
	again := claimSoon(t, h, req, 1)
	if early := shortLease - time.Since(start); early > 0 {
		t.Errorf("a job was reclaimed %v before its lease expired", early)
	}
	wantIDs(t, "claim after the lease expired", again, crashed)
	if j := again[0]; j.Attempt != 2 || j.Fence == crashed[0].Fence || j.Worker != "another" {
		t.Errorf("claimed again: got attempt %d, fence %d, worker %q; want 2, another than %d, another",
			j.Attempt, j.Fence, j.Worker, crashed[0].Fence)
	}
	wantHeld(t, h, "of the job whose lease lasts", alive...)
}

func testExtendKeeps(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(3, nil)...)
	req := request(2)
	req.Lease = 300 * time.Millisecond
	both := claim(t, h, req)
	wantHeld(t, h, "of one of two", both[0])
	unclaimed := claimOne(t, h)

	awaitReclaim(t, h, 1)
	wantIDs(t, "claim after both leases expired but one was extended",
		claimSoon(t, h, request(3), 1), both[1:])
	wantHeld(t, h, "of what is held", both[0], unclaimed)
}

func testExtendShortens(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	job := claimOne(t, h)
	if lost, _, err := h.Queue.Extend(t.Context(), shortLease, job); err != nil || len(lost) != 0 {
		t.Fatalf("Extend: lost %v, error %v; want neither", ids(lost), err)
	}
	awaitReclaim(t, h, 1)
	wantIDs(t, "claim after the shorter lease expired", claimSoon(t, h, request(1), 1), []*queue.Job{job})
}

func testReclaimReturns(t *testing.T, h Harness) {
	j := newJob()
	j.Key, j.Priority, j.Headers = "key", 3, map[string]string{"a": "b"}
	enqueue(t, h, j)
	req := short(request(1))
	req.Worker = "crasher"
	claim(t, h, req)
	got := awaitReclaim(t, h, 1)
	wantIDs(t, "reclaimed", got, []*queue.Job{j})
	r := got[0]
	if r.Attempt != 1 || r.MaxAttempts != queue.DefaultMaxAttempts || r.Kind != "k" || r.Queue != "q" || r.Key != "key" {
		t.Errorf("reclaimed job: got %+v, want attempt 1 of %d, its kind, queue and key", r, queue.DefaultMaxAttempts)
	}
	if r.Payload != nil || r.Headers != nil {
		t.Errorf("reclaimed job: got payload %s and headers %v, want neither: a thousand of them may be long", r.Payload, r.Headers)
	}
	if want := "errand: the lease of worker crasher expired"; r.LastError != want {
		t.Errorf("LastError of the reclaimed job: got %q, want %q", r.LastError, want)
	}
	wantStatus(t, h, "after the reclaim", j.ID, queue.StatusPending)
	again := claimOne(t, h)
	if again.Attempt != 2 || again.LastError != r.LastError {
		t.Errorf("claimed again: got attempt %d, LastError %q; want 2, %q", again.Attempt, again.LastError, r.LastError)
	}
}

func testReclaimLimit(t *testing.T, h Harness) {
	reclaimer, _ := driver.As[driver.Reclaimer](h.Queue)
	jobs := newJobs(5, nil)
	enqueue(t, h, jobs...)
	claim(t, h, short(request(5)))
	var all []*queue.Job
	poll(t, "five expired leases", func() bool {
		got, err := reclaimer.Reclaim(t.Context(), 2)
		if err != nil || len(got) > 2 {
			t.Fatalf("Reclaim with limit 2: got jobs %v, error %v; want at most 2", ids(got), err)
		}
		all = append(all, got...)
		return len(all) >= 5
	})
	wantSameIDs(t, "reclaimed by twos", all, jobs)
}

func testReclaimDead(t *testing.T, h Harness) {
	j := newJob()
	j.MaxAttempts = 2
	enqueue(t, h, j)
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Retry})
	claim(t, h, short(request(1)))
	got := awaitReclaim(t, h, 1)
	wantIDs(t, "reclaimed", got, []*queue.Job{j})
	if r := got[0]; r.Attempt != 2 || r.MaxAttempts != 2 {
		t.Errorf("reclaimed job: got attempt %d of %d, want 2 of 2", r.Attempt, r.MaxAttempts)
	}
	claimNone(t, h, "after the last attempt's lease expired")
	wantStatus(t, h, "after the last attempt's lease expired", j.ID, queue.StatusDead)
}

func testReclaimFreesKey(t *testing.T, h Harness) {
	j, next := newJob(), newJob()
	j.MaxAttempts, j.Key, next.Key = 1, "key", "key"
	enqueue(t, h, j)
	claim(t, h, short(request(1)))
	awaitReclaim(t, h, 1)
	enqueue(t, h, next)
	wantWritten(t, "after the reclaim that made the key's holder dead", next)
}

func testLeaseRecord(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	job := claimOne(t, h)
	claimed, _ := lookUp(t, h, job.ID)
	if claimed.Status != queue.StatusRunning || claimed.Worker != "w" || claimed.Fence != job.Fence || claimed.Attempt != 1 {
		t.Fatalf("record of a claimed job: got %+v, want it running, with worker w, fence %d, attempt 1", claimed, job.Fence)
	}
	wantLease(t, "claimed", claimed, longLease)
	if lost, _, err := h.Queue.Extend(t.Context(), 3*longLease, job); err != nil || len(lost) != 0 {
		t.Fatalf("Extend: lost %v, error %v; want neither", ids(lost), err)
	}
	extended, _ := lookUp(t, h, job.ID)
	wantLease(t, "extended", extended, 3*longLease)
	if extended.LockedAt.Before(claimed.LockedAt) || extended.Attempt != 1 || extended.Fence != job.Fence {
		t.Errorf("record after Extend: got %+v, want LockedAt not before %v, attempt 1, fence %d",
			extended, claimed.LockedAt, job.Fence)
	}
	for _, action := range []queue.OutcomeAction{queue.Release, queue.Retry, queue.Dead} {
		settle(t, h, queue.Outcome{Job: job, Action: action})
		lookUp(t, h, job.ID) // which must have no lease
		if action != queue.Dead {
			job = claimOne(t, h)
		}
	}
}

func wantLease(t *testing.T, when string, rec queue.Record, want time.Duration) {
	t.Helper()
	if got := rec.LeaseEnds.Sub(rec.LockedAt); (got - want).Abs() > time.Millisecond {
		t.Errorf("lease of a job when %s: got %v from LockedAt to LeaseEnds, want %v", when, got, want)
	}
}

func reassigner(h Harness) driver.Reassigner {
	r, _ := driver.As[driver.Reassigner](h.Queue)
	return r
}

func testReassign(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(5, nil)...)
	held := claimAll(t, h, 5)
	before := *held[1]
	left, err := reassigner(h).Reassign(t.Context(), []string{"u", "v", "u", held[3].Worker}, held[3], held[1], held[0], held[2])
	if err != nil || len(left) != 0 {
		t.Fatalf("Reassign of held jobs: left %v, error %v; want none", ids(left), err)
	}
	for i, want := range []string{"u", "v", before.Worker, "u", before.Worker} {
		if got := held[i]; got.Worker != want || got.Fence != before.Fence {
			t.Errorf("job %d after Reassign: worker %q, fence %d; want %q and %d as before", i, got.Worker, got.Fence, want, before.Fence)
		}
	}
	wantLost(t, h, "the name of the worker before", &before)
	wantHeld(t, h, "by the workers that hold the jobs now", held...)
	settle(t, h, outcomes(queue.Done, held...)...)
}

func testReassignNotHeld(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(4, nil)...)
	held := claimAll(t, h, 4)
	settle(t, h, queue.Outcome{Job: held[0]})
	stale, strange := *held[1], *held[2]
	stale.Fence--
	strange.Worker = "strange"
	want := []*queue.Job{held[0], &stale, &strange}
	left, err := reassigner(h).Reassign(t.Context(), []string{"v", "v", "v", "v"}, append(want, held[3])...)
	slices.SortFunc(left, func(a, b *queue.Job) int { return cmp.Compare(a.ID, b.ID) })
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("Reassign of jobs that are not held, and one that is: left %v, error %v; want %v", ids(left), err, ids(want))
	}
	if stale.Worker != held[1].Worker || strange.Worker != "strange" || held[3].Worker != "v" {
		t.Errorf("after Reassign: workers %q, %q and %q; want only the last one changed", stale.Worker, strange.Worker, held[3].Worker)
	}
	wantHeld(t, h, "of the jobs whose holder has not changed, and of one whose has", held[1:]...)
	for _, workers := range [][]string{{}, {"v", "v"}, {""}, {"a\nb"}} {
		_, err := reassigner(h).Reassign(t.Context(), workers, held[1])
		wantInvalid(t, fmt.Sprintf("Reassign of one job to %q", workers), err, "Workers")
	}
}

// testDeaths: of three jobs whose lease expires, the one in its last attempt is told, without its
// payload, and only to a caller that asks for its queue.
func testDeaths(t *testing.T, h Harness) {
	jobs := newJobs(3, func(i int, j *queue.Job) { j.MaxAttempts = 1 + i%2 })
	jobs[2].Queue = "other"
	enqueue(t, h, jobs...)
	req := short(request(3))
	req.Queues = []string{"q", "other"}
	claim(t, h, req)
	teller, _ := driver.As[driver.DeathTeller](h.Queue)
	deaths := func(queues ...string) []*queue.Job {
		t.Helper()
		dead, err := teller.Deaths(t.Context(), queues)
		if err != nil {
			t.Fatalf("Deaths: %v", err)
		}
		return dead
	}
	for name, want := range map[string]*queue.Job{"q": jobs[0], "other": jobs[2]} {
		var dead []*queue.Job
		poll(t, "a death in "+name, func() bool {
			dead = append(dead, deaths(name, "none")...)
			return len(dead) > 0
		})
		wantIDs(t, "deaths in "+name, append(dead, deaths(name)...), []*queue.Job{want})
		if j := dead[0]; j.Attempt != 1 || j.MaxAttempts != 1 || j.Kind != want.Kind || j.Payload != nil || !strings.Contains(j.LastError, "lease of worker") {
			t.Errorf("death: got %+v, want the first attempt of one, no payload, and why it died", j)
		}
	}
}
