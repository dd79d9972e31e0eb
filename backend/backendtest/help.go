package backendtest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// The suite's durations: a lease that outlives every case, a lease that cases wait for, and the
// longest that anything is waited for.
const (
	longLease  = 10 * time.Minute
	shortLease = 50 * time.Millisecond
	patience   = 20 * time.Second
)

// newJob returns a job of kind "k" for the queue "q".
func newJob() *queue.Job {
	return &queue.Job{Queue: "q", Kind: "k", Payload: json.RawMessage(`{"n": 1}`)}
}

// newJobs returns n such jobs, each changed by set.
func newJobs(n int, set func(i int, j *queue.Job)) []*queue.Job {
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = newJob()
		if set != nil {
			set(i, jobs[i])
		}
	}
	return jobs
}

// enqueue enqueues jobs through the backend's own handle.
func enqueue(t *testing.T, h Harness, jobs ...*queue.Job) {
	t.Helper()
	enqueueIn(t, h, nil, jobs...)
}

func enqueueIn(t *testing.T, h Harness, db queue.DB, jobs ...*queue.Job) {
	t.Helper()
	if err := h.Queue.Enqueue(t.Context(), db, jobs...); err != nil {
		t.Fatalf("Enqueue of %d jobs: %v", len(jobs), err)
	}
}

// request asks for limit jobs of the queue "q".
func request(limit int) queue.ClaimRequest {
	return queue.ClaimRequest{Queues: []string{"q"}, Limit: limit, Lease: longLease, Worker: "w"}
}

// short returns the request with a lease that a test waits for.
func short(req queue.ClaimRequest) queue.ClaimRequest {
	req.Lease = shortLease
	return req
}

func claim(t *testing.T, h Harness, req queue.ClaimRequest) []*queue.Job {
	t.Helper()
	jobs, err := h.Queue.Claim(t.Context(), req)
	if err != nil {
		t.Fatalf("Claim(%+v): %v", req, err)
	}
	return jobs
}

// claimAll claims exactly n jobs of the queue "q", asking for one more.
func claimAll(t *testing.T, h Harness, n int) []*queue.Job {
	t.Helper()
	jobs := claim(t, h, request(n+1))
	if len(jobs) != n {
		t.Fatalf("Claim with limit %d: got jobs %v, want %d of them", n+1, ids(jobs), n)
	}
	return jobs
}

// claimOne claims the one job that is due in the queue "q".
func claimOne(t *testing.T, h Harness) *queue.Job {
	t.Helper()
	return claimAll(t, h, 1)[0]
}

// claimNone checks that nothing is due in the queue "q".
func claimNone(t *testing.T, h Harness, when string) {
	t.Helper()
	if jobs := claim(t, h, request(10)); len(jobs) != 0 {
		t.Fatalf("Claim %s: got jobs %v, want none", when, ids(jobs))
	}
}

// settle settles outcomes that the caller holds.
func settle(t *testing.T, h Harness, outcomes ...queue.Outcome) {
	t.Helper()
	settleIn(t, h, nil, outcomes...)
}

func settleIn(t *testing.T, h Harness, db queue.DB, outcomes ...queue.Outcome) {
	t.Helper()
	lost, err := h.Queue.Settle(t.Context(), db, outcomes...)
	if err != nil {
		t.Fatalf("Settle of %d outcomes: %v", len(outcomes), err)
	}
	if len(lost) != 0 {
		t.Fatalf("Settle of %d outcomes: lost %v, want none", len(outcomes), ids(lost))
	}
}

// outcomes returns an outcome with the action for each of the jobs.
func outcomes(action queue.OutcomeAction, jobs ...*queue.Job) []queue.Outcome {
	all := make([]queue.Outcome, len(jobs))
	for i, j := range jobs {
		all[i] = queue.Outcome{Job: j, Action: action}
	}
	return all
}

// wantHeld checks that the caller holds jobs.
func wantHeld(t *testing.T, h Harness, when string, jobs ...*queue.Job) {
	t.Helper()
	lost, _, err := h.Queue.Extend(t.Context(), longLease, jobs...)
	if err != nil || len(lost) != 0 {
		t.Fatalf("Extend %s: lost %v, error %v; want none of %v lost", when, ids(lost), err, ids(jobs))
	}
}

// idList is the IDs of jobs. It prints the first few.
type idList []int64

func ids(jobs []*queue.Job) idList {
	list := make(idList, len(jobs))
	for i, j := range jobs {
		list[i] = j.ID
	}
	return list
}

func (l idList) String() string {
	const few = 20
	if len(l) <= few {
		return fmt.Sprint([]int64(l))
	}
	return fmt.Sprintf("%v … (%d in all)", []int64(l[:few]), len(l))
}

// wantIDs checks that got are the wanted jobs, in that order.
func wantIDs(t *testing.T, what string, got, want []*queue.Job) {
	t.Helper()
	if !slices.Equal(ids(got), ids(want)) {
		t.Fatalf("%s: got jobs %v, want %v", what, ids(got), ids(want))
	}
}

// wantInOrder checks that got are the wanted jobs: in that order, unless queues are spread.
func wantInOrder(t *testing.T, h Harness, what string, got, want []*queue.Job) {
	t.Helper()
	if h.Spread {
		wantSameIDs(t, what, got, want)
	} else {
		wantIDs(t, what, got, want)
	}
}

// wantSameIDs checks that got are the wanted jobs, in any order.
func wantSameIDs(t *testing.T, what string, got, want []*queue.Job) {
	t.Helper()
	g, w := ids(got), ids(want)
	slices.Sort(g)
	slices.Sort(w)
	if !slices.Equal(g, w) {
		t.Fatalf("%s: got jobs %v, want %v in any order", what, g, w)
	}
}

// lookUp returns the job's record. ok is false if there is none, or if the backend is not an
// Inspector.
func lookUp(t *testing.T, h Harness, id int64) (rec queue.Record, ok bool) {
	t.Helper()
	inspector, ok := driver.As[driver.Inspector](h.Queue)
	if !ok {
		return rec, false
	}
	rec, ok, err := inspector.Job(t.Context(), id)
	if err != nil {
		t.Fatalf("Job(%d): %v", id, err)
	}
	if ok && rec.Status != queue.StatusRunning && (!rec.LockedAt.IsZero() || !rec.LeaseEnds.IsZero()) {
		t.Errorf("record of job %d, which is %s: got LockedAt %v, LeaseEnds %v; want zero", id, rec.Status, rec.LockedAt, rec.LeaseEnds)
	}
	for _, at := range []*time.Time{
		&rec.ScheduledAt, &rec.CreatedAt, &rec.LockedAt, &rec.LeaseEnds, &rec.StartedAt, &rec.FinishedAt, &rec.RedrivenAt, &rec.UpdatedAt,
	} {
		*at = at.UTC().Round(0)
	}
	for i := range rec.History {
		rec.History[i].At = rec.History[i].At.UTC().Round(0)
	}
	return rec, ok
}

// wantUnchanged checks that the job's record is still equal to before.
func wantUnchanged(t *testing.T, h Harness, what string, before queue.Record) {
	t.Helper()
	if before.ID == 0 {
		return // no Inspector
	}
	if after, _ := lookUp(t, h, before.ID); !reflect.DeepEqual(after, before) {
		t.Fatalf("%s changed the job:\n got %+v\nwant %+v", what, after, before)
	}
}

// wantStatus checks the job's status if the backend is an Inspector.
func wantStatus(t *testing.T, h Harness, when string, id int64, want queue.Status) {
	t.Helper()
	if !can[driver.Inspector](h) {
		return
	}
	if rec, _ := lookUp(t, h, id); rec.Status != want {
		t.Fatalf("status of job %d %s: got %q, want %q", id, when, rec.Status, want)
	}
}

// poll calls done every 10 ms until it is true.
func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v, but never saw: %s", patience, what)
		}
	}
}

// awaitReclaim reclaims until n jobs have been reclaimed, and returns them. If the backend is not a
// Reclaimer, it returns none: such a backend reclaims when it claims.
func awaitReclaim(t *testing.T, h Harness, n int) (jobs []*queue.Job) {
	t.Helper()
	reclaimer, ok := driver.As[driver.Reclaimer](h.Queue)
	if !ok {
		return nil
	}
	poll(t, "expired leases to be reclaimed", func() bool {
		more, err := reclaimer.Reclaim(t.Context(), 1000)
		if err != nil {
			t.Fatalf("Reclaim: %v", err)
		}
		jobs = append(jobs, more...)
		return len(jobs) >= n
	})
	return jobs
}

// claimSoon claims until it has n jobs.
func claimSoon(t *testing.T, h Harness, req queue.ClaimRequest, n int) (jobs []*queue.Job) {
	t.Helper()
	poll(t, "jobs to be due again", func() bool {
		jobs = append(jobs, claim(t, h, req)...)
		return len(jobs) >= n
	})
	return jobs
}

// prune calls Prune until it has looked at all that there is.
func prune(t *testing.T, h Harness) {
	t.Helper()
	reclaimer, _ := driver.As[driver.Reclaimer](h.Queue)
	for more := true; more; {
		var err error
		if _, more, err = reclaimer.Prune(t.Context()); err != nil {
			t.Fatalf("Prune: %v", err)
		}
	}
}
