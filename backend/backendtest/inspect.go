package backendtest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var inspectCases = []testCase{
	{"counts", hasInspector, testCounts},
	{"tally", hasInspector, testTally},
	{"one job", hasInspector, testOneJob},
	{"an ended job", hasInspector, testEndedJob},
	{"filters", hasInspector | isInOrder, testFilters},
	{"expired leases", hasInspector | hasReclaimer, testExpired},
	{"pages", hasInspector, testPages},
	{"pruning leaves what is young", hasReclaimer, testPruneYoung},
	{"bare", hasInspector, testBare},
	{"check", hasChecker, testCheck},
}

// testCheck: a backend that has been set up is able to serve.
func testCheck(t *testing.T, h Harness) {
	checker, _ := driver.As[driver.Checker](h.Queue)
	if err := checker.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	wantCanceled(t, "Check", checker.Check(cancelled(t)))
}

func testCounts(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	enqueue(t, h, newJobs(6, func(i int, j *queue.Job) { j.Queue = []string{"q", "q", "p"}[i%3] })...)
	later := newJob()
	later.Delay = time.Hour
	enqueue(t, h, later)
	held := claim(t, h, request(2))
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Dead})
	want := []queue.StatusCount{
		{Queue: "p", Status: queue.StatusPending, Jobs: 2, Exact: true},
		{Queue: "q", Status: queue.StatusDead, Jobs: 1, Exact: true},
		{Queue: "q", Status: queue.StatusPending, Jobs: 3, Exact: true},
		{Queue: "q", Status: queue.StatusRunning, Jobs: 1, Exact: true},
	}
	got, err := inspector.Counts(t.Context())
	if err != nil {
		t.Fatalf("Counts: %v", err)
	}
	if !slices.IsSortedFunc(got, func(a, b queue.StatusCount) int { return cmp.Compare(a.Queue, b.Queue) }) {
		t.Errorf("Counts: got %+v, want them in the order of queues", got)
	}
	slices.SortFunc(got, func(a, b queue.StatusCount) int {
		return cmp.Compare(a.Queue+"\x00"+string(a.Status), b.Queue+"\x00"+string(b.Status))
	})
	if !slices.Equal(got, want) {
		t.Errorf("Counts: got %+v, want %+v", got, want)
	}
}

// testTally: chosen jobs are counted, each once, whatever has become of them.
func testTally(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	jobs := newJobs(8, func(i int, j *queue.Job) {
		j.Queue, j.Kind, j.Group = []string{"q", "p"}[i/6], []string{"k", "l"}[i%2], []string{"", "g"}[i/4]
	})
	jobs[7].Key = "a"
	enqueue(t, h, jobs...)
	var held []*queue.Job
	for range 3 {
		held = append(held, claim(t, h, request(1))...)
	}
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Done}, queue.Outcome{Job: held[1], Action: queue.Dead})
	count := func(name string, status queue.Status, n int64) queue.StatusCount {
		return queue.StatusCount{Queue: name, Status: status, Jobs: n, Exact: true}
	}
	var ids []int64
	for _, j := range jobs[1:] {
		ids = append(ids, j.ID, jobs[7].ID+1000)
	}
	ids = append(ids, jobs[2].ID)
	var heldIDs []int64
	for _, j := range held {
		heldIDs = append(heldIDs, j.ID)
	}
	for _, c := range []struct {
		which queue.Selection
		want  []queue.StatusCount
	}{
		{queue.Selection{Queue: "q"}, []queue.StatusCount{
			count("q", queue.StatusCompleted, 1), count("q", queue.StatusDead, 1), count("q", queue.StatusPending, 3), count("q", queue.StatusRunning, 1),
		}},
		{queue.Selection{IDs: heldIDs}, []queue.StatusCount{
			count("q", queue.StatusCompleted, 1), count("q", queue.StatusDead, 1), count("q", queue.StatusRunning, 1),
		}},
		{queue.Selection{IDs: heldIDs, Status: queue.StatusDead}, []queue.StatusCount{count("q", queue.StatusDead, 1)}},
		{queue.Selection{IDs: ids, Queue: "p"}, []queue.StatusCount{count("p", queue.StatusPending, 2)}},
		{queue.Selection{IDs: ids, Queue: "p", Kind: "l"}, []queue.StatusCount{count("p", queue.StatusPending, 1)}},
		{queue.Selection{Group: "g", Status: queue.StatusPending, Queue: "p"}, []queue.StatusCount{count("p", queue.StatusPending, 2)}},
		{queue.Selection{Queue: "q", Status: queue.StatusCompleted}, []queue.StatusCount{count("q", queue.StatusCompleted, 1)}},
		{queue.Selection{Key: "a"}, []queue.StatusCount{count("p", queue.StatusPending, 1)}},
		{queue.Selection{Queue: "none"}, nil},
		{queue.Selection{IDs: []int64{jobs[7].ID + 1000}}, nil},
	} {
		got, err := inspector.Tally(t.Context(), c.which)
		slices.SortFunc(got, func(a, b queue.StatusCount) int { // the order of statuses is the backend's
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Status, b.Status))
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("Tally of %+v: got %+v, error %v; want %+v", c.which, got, err, c.want)
		}
	}
	for _, bad := range []queue.Selection{{}, {Status: queue.StatusDead}, {IDs: []int64{}}, {Queue: "q", Status: "odd"}} {
		_, err := inspector.Tally(t.Context(), bad)
		if _, ok := errors.AsType[*queue.InvalidError](err); !ok {
			t.Errorf("Tally of %+v: got error %v, want an InvalidError", bad, err)
		}
	}
	_, err := inspector.Tally(cancelled(t), queue.Selection{Queue: "q"})
	wantCanceled(t, "Tally", err)
}

func testOneJob(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	j := keyed("a")
	j.Headers = map[string]string{"a": "b"}
	j.Priority, j.MaxAttempts, j.ScheduledAt = 3, 7, time.Now().Add(time.Hour).Truncate(time.Millisecond)
	enqueue(t, h, j)
	r, ok, err := inspector.Job(t.Context(), j.ID)
	if err != nil || !ok {
		t.Fatalf("Job(%d): ok %v, error %v; want the job", j.ID, ok, err)
	}
	if r.ID != j.ID || r.Queue != j.Queue || r.Kind != j.Kind || r.Priority != j.Priority || r.MaxAttempts != j.MaxAttempts ||
		r.Key != j.Key || !maps.Equal(r.Headers, j.Headers) || !r.ScheduledAt.Equal(j.ScheduledAt) {
		t.Errorf("record of a new job: got %+v, want what was enqueued: %+v", r, j)
	}
	wantJSON(t, "payload of a record", r.Payload, string(j.Payload))
	if r.Status != queue.StatusPending || r.Attempt != 0 || r.Worker != "" || r.LastError != "" ||
		!r.LockedAt.IsZero() || !r.LeaseEnds.IsZero() || r.CreatedAt.IsZero() || r.UpdatedAt.IsZero() {
		t.Errorf("record of a new job: got %+v, want it pending, never run, with CreatedAt and UpdatedAt", r)
	}
	for _, id := range []int64{j.ID + 1_000_000, 0, -1} {
		if r, ok, err := inspector.Job(t.Context(), id); ok || err != nil {
			t.Errorf("Job(%d): got %+v, ok %v, error %v; want none", id, r, ok, err)
		}
	}
}

// testEndedJob: a completed job shows the worker that completed it. No other ended job has a
// holder.
func testEndedJob(t *testing.T, h Harness) {
	for _, action := range []queue.OutcomeAction{queue.Done, queue.Dead, queue.Retry, queue.Release} {
		j := newJob()
		enqueue(t, h, j)
		held := claimOne(t, h)
		settle(t, h, queue.Outcome{Job: held, Action: action, Delay: time.Hour})
		r, ok := lookUp(t, h, j.ID)
		if !ok && action == queue.Done {
			continue // it is not kept
		}
		fence, worker := int64(0), ""
		if action == queue.Done {
			fence, worker = held.Fence, held.Worker
		}
		if r.Fence != fence || r.Worker != worker || !r.LockedAt.IsZero() || !r.LeaseEnds.IsZero() {
			t.Errorf("record of a job after %v: got fence %d, worker %q, lease %v to %v; want fence %d, worker %q and no lease",
				action, r.Fence, r.Worker, r.LockedAt, r.LeaseEnds, fence, worker)
		}
	}
}

// list lists a page of the jobs that f selects.
func list(t *testing.T, h Harness, f queue.Filter) (jobs []*queue.Job, next int64) {
	t.Helper()
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	records, next, err := inspector.Jobs(t.Context(), f)
	if err != nil {
		t.Fatalf("Jobs(%+v): %v", f, err)
	}
	if records == nil {
		t.Errorf("Jobs(%+v): got nil, which is null in JSON", f)
	}
	for i := range records {
		jobs = append(jobs, &records[i].Job)
	}
	return jobs, next
}

func testFilters(t *testing.T, h Harness) {
	jobs := newJobs(8, func(i int, j *queue.Job) {
		j.Queue, j.Kind = []string{"q", "p"}[i%2], []string{"k", "k", "l", "l"}[i%4]
		j.Key = []string{"", "", "", "", "a", "a", "b", "c"}[i]
		j.Group = []string{"", "", "", "g"}[i%4]
	})
	for _, j := range jobs {
		enqueue(t, h, j)
	}
	held := claim(t, h, request(3)) // 0, 2 and 4
	settle(t, h, queue.Outcome{Job: held[1], Action: queue.Dead, Err: errors.New("boom")},
		queue.Outcome{Job: held[2], Action: queue.Retry, Err: errors.New("boom")})
	for _, c := range []struct {
		filter queue.Filter
		want   []int
	}{
		{queue.Filter{}, []int{7, 6, 5, 4, 3, 2, 1, 0}},
		{queue.Filter{Queue: "p"}, []int{7, 5, 3, 1}},
		{queue.Filter{Kind: "k"}, []int{5, 4, 1, 0}},
		{queue.Filter{Queue: "q", Kind: "l"}, []int{6, 2}},
		{queue.Filter{Status: queue.StatusRunning}, []int{0}},
		{queue.Filter{Status: queue.StatusDead}, []int{2}},
		{queue.Filter{Status: queue.StatusPending, Queue: "q"}, []int{6, 4}},
		{queue.Filter{Status: queue.StatusFailed}, nil},
		{queue.Filter{Key: "a"}, []int{5, 4}},
		{queue.Filter{Key: "a", Queue: "q"}, []int{4}},
		{queue.Filter{Key: "none"}, nil},
		{queue.Filter{Group: "g"}, []int{7, 3}},
		{queue.Filter{Group: "g", Status: queue.StatusPending, Key: "c"}, []int{7}},
		{queue.Filter{Group: "g", Status: queue.StatusRunning}, nil},
		{queue.Filter{Group: "none", Status: queue.StatusPending}, nil},
		{queue.Filter{MinAttempts: 1}, []int{4, 2, 0}},
		{queue.Filter{MinAttempts: 1, Status: queue.StatusPending}, []int{4}},
		{queue.Filter{MinAttempts: 1, Status: queue.StatusDead}, []int{2}},
		{queue.Filter{MinAttempts: 2, Status: queue.StatusRunning}, nil},
		{queue.Filter{MinAttempts: 2, Status: queue.StatusPending}, nil},
		{queue.Filter{Limit: 3}, []int{7, 6, 5}},
		{queue.Filter{Before: jobs[5].ID}, []int{4, 3, 2, 1, 0}},
		{queue.Filter{Before: jobs[5].ID, Queue: "p", Limit: 1}, []int{3}},
		{queue.Filter{Before: jobs[0].ID}, nil},
	} {
		var want []*queue.Job
		for _, i := range c.want {
			want = append(want, jobs[i])
		}
		got, next := list(t, h, c.filter)
		wantIDs(t, fmt.Sprintf("Jobs(%+v)", c.filter), got, want)
		full := c.filter.Limit > 0 && len(want) == c.filter.Limit
		if full && next != want[len(want)-1].ID || !full && next != 0 {
			t.Errorf("Jobs(%+v): got %d as the next Before, want the last job's ID after a full page, else 0", c.filter, next)
		}
	}
}

// testBare: a bare list has every job, and of each all but what enqueuers and handlers have put
// into it. A list without payloads lacks these and the headers only.
func testBare(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	enqueue(t, h, newJobs(4, func(i int, j *queue.Job) {
		j.Key, j.Group, j.Headers = fmt.Sprint("secret", i), "g", map[string]string{"secret": "secret"}
	})...)
	held := claim(t, h, request(3))
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Dead, Err: errors.New("secret")},
		queue.Outcome{Job: held[1], Action: queue.Retry, Err: errors.New("secret"), Delay: time.Hour})
	for _, f := range []queue.Filter{
		{}, {Kind: "k"}, {Status: queue.StatusDead}, {Status: queue.StatusPending}, {RunningFor: 1}, {Group: "g", Status: queue.StatusPending},
	} {
		want, _, err := inspector.Jobs(t.Context(), f)
		if err != nil || len(want) == 0 {
			t.Fatalf("Jobs(%+v): got %d jobs, error %v; want some", f, len(want), err)
		}
		for i := range want {
			w := &want[i]
			if w.Payload == nil || w.Headers == nil || w.Key == "" {
				t.Errorf("Jobs(%+v): got %+v, want its payload, headers and key", f, *w)
			}
			w.Payload, w.Headers = nil, nil
		}
		f.NoPayload = true
		got, _, err := inspector.Jobs(t.Context(), f)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Jobs(%+v): got\n%+v, error %v; want\n%+v", f, got, err, want)
		}
		for i := range want {
			want[i].Key, want[i].LastError = "", ""
		}
		f.Bare = true
		got, _, err = inspector.Jobs(t.Context(), f)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Jobs(%+v): got\n%+v, error %v; want\n%+v", f, got, err, want)
		}
	}
	_, _, err := inspector.Jobs(t.Context(), queue.Filter{Bare: true, Key: "secret0"})
	wantInvalid(t, "a bare list by key", err, "Key")
}

// testExpired: a job is listed as expired from the end of its lease until it is reclaimed.
func testExpired(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(4, func(i int, j *queue.Job) { j.Queue = []string{"q", "p"}[i%2] })...)
	short := request(1)
	short.Lease = time.Millisecond
	held := claim(t, h, request(1))
	expired := claim(t, h, short)
	short.Queues = []string{"p"}
	expired = append(expired, claim(t, h, short)...)
	slices.SortFunc(expired, func(a, b *queue.Job) int { return cmp.Compare(b.ID, a.ID) })
	listed := func(f queue.Filter) []*queue.Job {
		jobs, _ := list(t, h, f)
		return jobs
	}
	poll(t, "the leases to expire", func() bool { return len(listed(queue.Filter{Expired: true})) == 2 })
	wantIDs(t, "expired jobs", listed(queue.Filter{Expired: true}), expired)
	wantIDs(t, "running jobs that have expired", listed(queue.Filter{Expired: true, Status: queue.StatusRunning}), expired)
	for _, j := range expired {
		wantIDs(t, "expired jobs of queue "+j.Queue, listed(queue.Filter{Expired: true, Queue: j.Queue}), []*queue.Job{j})
	}
	wantIDs(t, "a page of one", listed(queue.Filter{Expired: true, Limit: 1}), expired[:1])
	awaitReclaim(t, h, 2)
	wantIDs(t, "expired jobs after Reclaim", listed(queue.Filter{Expired: true}), nil)
	wantHeld(t, h, "beside expired jobs", held[0])
}

func testPages(t *testing.T, h Harness) {
	jobs := newJobs(250, nil)
	enqueue(t, h, jobs...)
	slices.Reverse(jobs)
	hundred, _ := list(t, h, queue.Filter{})
	wantIDs(t, "Jobs without a limit", hundred, jobs[:100])
	thousand, _ := list(t, h, queue.Filter{Limit: 1000})
	wantIDs(t, "Jobs with limit 1000", thousand, jobs)
	var all []*queue.Job
	f := queue.Filter{Limit: 60}
	for more := true; more && len(all) <= len(jobs); more = f.Before != 0 {
		var page []*queue.Job
		page, f.Before = list(t, h, f)
		all = append(all, page...)
	}
	wantIDs(t, "all pages of Jobs with limit 60", all, jobs)
}

// testPruneYoung prunes until Prune has seen every job: jobs that have just ended stay, and so do
// live ones. The SQL backends of this module are opened with the longest Retention there is, with
// which a sum may overflow.
func testPruneYoung(t *testing.T, h Harness) {
	reclaimer, _ := driver.As[driver.Reclaimer](h.Queue)
	enqueue(t, h, newJobs(4, nil)...)
	held := claimAll(t, h, 4)
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Dead}, queue.Outcome{Job: held[1], Action: queue.Done},
		queue.Outcome{Job: held[2], Action: queue.Release})
	poll(t, "Prune to have looked at every slice", func() bool {
		removed, more, err := reclaimer.Prune(t.Context())
		if err != nil || removed != 0 {
			t.Fatalf("Prune of young jobs: removed %d, error %v; want neither", removed, err)
		}
		return !more
	})
	wantStatus(t, h, "after Prune", held[0].ID, queue.StatusDead)
	wantStatus(t, h, "after Prune", held[1].ID, queue.StatusCompleted)
	wantHeld(t, h, "after Prune", held[3])
	wantIDs(t, "claim after Prune", claimAll(t, h, 1), held[2:3])
}
