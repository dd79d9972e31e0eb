package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var settleCases = []testCase{
	{"mixed outcomes in one batch", anything, testMixedOutcomes},
	{"retry after a delay", anything, testRetryDelay},
	{"release after a delay", anything, testReleaseDelay},
	{"attempts count up to dead", anything, testAttempts},
	{"dead at once", anything, testDeadAtOnce},
	{"release uses no attempt", anything, testReleaseKeepsAttempts},
	{"last error", anything, testLastError},
	{"bad error text", anything, testErrorText},
	{"two workers in one batch", anything, testTwoWorkers},
	{"the caller's slices stay as they are", anything, testSlicesStay},
	{"retried and snoozed jobs go behind", anything, testGoBehind},
	{"released without a delay keeps its place", isInOrder, testKeepPlace},
	{"nothing to settle or extend", anything, testSettleNothing},
	{"10,000 in one call", isFull, testLargeBatch},
}

func testMixedOutcomes(t *testing.T, h Harness) {
	jobs := newJobs(6, func(i int, j *queue.Job) {
		if i == 4 {
			j.MaxAttempts = 1
		}
	})
	enqueue(t, h, jobs...)
	held := claimAll(t, h, 6)
	boom := errors.New("boom")
	settle(t, h,
		queue.Outcome{Job: held[4], Action: queue.Retry, Err: boom},
		queue.Outcome{Job: held[0], Action: queue.Done},
		queue.Outcome{Job: held[3], Action: queue.Release},
		queue.Outcome{Job: held[1], Action: queue.Retry, Err: boom},
		queue.Outcome{Job: held[2], Action: queue.Dead, Err: boom},
	)
	want := []queue.Status{queue.StatusCompleted, queue.StatusPending, queue.StatusDead,
		queue.StatusPending, queue.StatusDead, queue.StatusRunning}
	for i, j := range jobs {
		if want[i] != queue.StatusCompleted { // which need not be kept
			wantStatus(t, h, fmt.Sprintf("after a mixed batch, index %d", i), j.ID, want[i])
		}
	}
	again := claimAll(t, h, 2)
	wantSameIDs(t, "claim after the batch", again, []*queue.Job{jobs[1], jobs[3]})
	for _, j := range again {
		attempt, text := 1, "" // released
		if j.ID == jobs[1].ID {
			attempt, text = 2, "boom"
		}
		if j.Attempt != attempt || j.LastError != text {
			t.Errorf("job %d: got attempt %d, LastError %q; want %d, %q", j.ID, j.Attempt, j.LastError, attempt, text)
		}
	}
	wantHeld(t, h, "of the job that was not in the batch", held[5])
}

func testRetryDelay(t *testing.T, h Harness)   { testSettleDelay(t, h, queue.Retry) }
func testReleaseDelay(t *testing.T, h Harness) { testSettleDelay(t, h, queue.Release) }

func testSettleDelay(t *testing.T, h Harness, action queue.OutcomeAction) {
	const delay = 150 * time.Millisecond
	jobs := newJobs(3, nil)
	enqueue(t, h, jobs...)
	held := claimAll(t, h, 3)
	start := time.Now()
	settle(t, h,
		queue.Outcome{Job: held[0], Action: action, Delay: delay},
		queue.Outcome{Job: held[1], Action: action, Delay: time.Hour},
		queue.Outcome{Job: held[2], Action: action, Delay: -time.Hour})
	wantIDs(t, fmt.Sprintf("first due after %v with delays %v, 1h and -1h", action, delay),
		claim(t, h, request(1)), jobs[2:])
	got := claimSoon(t, h, request(3), 1)
	if early := delay - time.Since(start); early > 0 {
		t.Errorf("after %v with delay %v: claimed %v too early", action, delay, early)
	}
	wantIDs(t, fmt.Sprintf("due after %v with delay %v", action, delay), got, jobs[:1])
}

func testAttempts(t *testing.T, h Harness) {
	j := newJob()
	j.MaxAttempts = 3
	enqueue(t, h, j)
	for attempt := 1; attempt <= 3; attempt++ {
		got := claimOne(t, h)
		if got.Attempt != attempt || got.MaxAttempts != 3 {
			t.Fatalf("claim %d: got attempt %d of %d, want %d of 3", attempt, got.Attempt, got.MaxAttempts, attempt)
		}
		settle(t, h, queue.Outcome{Job: got, Action: queue.Retry, Err: fmt.Errorf("error %d", attempt)})
	}
	claimNone(t, h, "after the last attempt failed")
	wantDead(t, h, j.ID, "error 3", 3)
}

func testDeadAtOnce(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	job := claimOne(t, h)
	settle(t, h, queue.Outcome{Job: job, Action: queue.Dead, Delay: time.Hour, Err: errors.New("hopeless")})
	claimNone(t, h, "after Dead")
	wantDead(t, h, job.ID, "hopeless", 1)
}

// wantDead checks the record of a dead job if the backend is an Inspector.
func wantDead(t *testing.T, h Harness, id int64, text string, attempt int) {
	t.Helper()
	if !can[driver.Inspector](h) {
		return
	}
	rec, _ := lookUp(t, h, id)
	if rec.Status != queue.StatusDead || rec.LastError != text || rec.Attempt != attempt {
		t.Errorf("record of job %d: got status %q, LastError %q, attempt %d; want dead, %q, %d",
			id, rec.Status, rec.LastError, rec.Attempt, text, attempt)
	}
}

func testReleaseKeepsAttempts(t *testing.T, h Harness) {
	j := newJob()
	j.MaxAttempts = 2
	enqueue(t, h, j)
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Retry, Err: errors.New("boom")})
	for range 5 {
		got := claimOne(t, h)
		if got.Attempt != 2 || got.LastError != "boom" {
			t.Fatalf("claim of a released job: got attempt %d, LastError %q; want 2, boom", got.Attempt, got.LastError)
		}
		settle(t, h, queue.Outcome{Job: got, Action: queue.Release, Err: errors.New("not kept")})
	}
}

func testLastError(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	for _, err := range []error{errors.New("first"), errors.New("line 1\nline \"2\" \\ 'x' {3},NULL"), nil, errors.New("NULL")} {
		settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Retry, Err: err})
		job := claimOne(t, h)
		if want := queue.ErrorText(err); job.LastError != want {
			t.Errorf("LastError after Retry with error %v: got %q, want %q", err, job.LastError, want)
		}
		settle(t, h, queue.Outcome{Job: job, Action: queue.Release})
	}
}

func testErrorText(t *testing.T, h Harness) {
	errs := []error{
		errors.New("fine"),
		errors.New("NUL \x00 within"),
		errors.New("\x00"),
		errors.New("\xff\xfe\xf0\x28"),
		errors.New(strings.Repeat("huge ", 300_000)),
		errors.New(strings.Repeat("é", 100_000)),
		errors.New("\ud7ff\U0010ffff\ufffe\u0001\u2028"),
		panicky{},
	}
	enqueue(t, h, newJobs(len(errs), nil)...)
	var batch []queue.Outcome
	want := make(map[int64]string)
	for i, j := range claimAll(t, h, len(errs)) {
		batch = append(batch, queue.Outcome{Job: j, Action: queue.Retry, Err: errs[i]})
		want[j.ID] = queue.ErrorText(errs[i])
	}
	settle(t, h, batch...)
	for _, j := range claimAll(t, h, len(errs)) {
		if j.LastError != want[j.ID] {
			t.Errorf("LastError of job %d: got %.80q (%d bytes), want %.80q (%d bytes)",
				j.ID, j.LastError, len(j.LastError), want[j.ID], len(want[j.ID]))
		}
	}
}

// panicky is an error whose methods panic.
type panicky struct{}

func (panicky) Error() string { panic("no text") }

func testTwoWorkers(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(4, nil)...)
	var held []*queue.Job
	for _, worker := range []string{"w1", "w2", "w1", "w2"} {
		req := request(1)
		req.Worker = worker
		held = append(held, claim(t, h, req)...)
	}
	wantHeld(t, h, "of two workers' jobs in one call", held...)
	settle(t, h, outcomes(queue.Done, held[:2]...)...)
	settle(t, h, outcomes(queue.Release, held[2:]...)...)
	wantSameIDs(t, "claim of what two workers released", claimAll(t, h, 2), held[2:])
}

// testSlicesStay: Extend and Settle do not change the caller's slices, whether the jobs are in the
// order of their IDs or in that of their claims.
func testSlicesStay(t *testing.T, h Harness) {
	jobs := newJobs(4, func(i int, j *queue.Job) { j.Priority = int32(-i) })
	enqueue(t, h, jobs...)
	var held []*queue.Job // the highest ID first
	for range jobs {
		held = append(held, claim(t, h, request(1))...)
	}
	slices.Reverse(held[2:])
	for _, part := range [][]*queue.Job{held[:2], held[2:]} {
		given, settled := slices.Clone(part), outcomes(queue.Done, part...)
		wantHeld(t, h, "of jobs of two claims", given...)
		settle(t, h, settled...)
		isOf := func(o queue.Outcome, j *queue.Job) bool { return o.Job == j }
		if !slices.Equal(given, part) || !slices.EqualFunc(settled, part, isOf) {
			t.Errorf("Extend and Settle of jobs %v have changed the order of the caller's slices", ids(part))
		}
	}
}

func testGoBehind(t *testing.T, h Harness) {
	jobs := newJobs(4, nil)
	enqueue(t, h, jobs...)
	first := claim(t, h, request(1))
	settle(t, h, outcomes(queue.Retry, first...)...)
	second := claim(t, h, request(1))
	settle(t, h, queue.Outcome{Job: second[0], Action: queue.Release, Delay: time.Microsecond}) // as Snooze(0) does
	wantIDs(t, "claim after the first was retried and the second released for a microsecond", claimSoon(t, h, request(4), 4),
		[]*queue.Job{jobs[2], jobs[3], jobs[0], jobs[1]})
}

// testKeepPlace: a job that a worker releases without having started it keeps its place, whatever
// became due meanwhile, and however often that happens.
func testKeepPlace(t *testing.T, h Harness) {
	jobs := newJobs(4, func(i int, j *queue.Job) {
		if i == 3 {
			j.Priority = 1
		}
	})
	jobs[1].ScheduledAt = time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	enqueue(t, h, jobs...)
	want := []*queue.Job{jobs[1], jobs[0], jobs[2], jobs[3]}
	for range 3 {
		held := claim(t, h, request(4))
		wantIDs(t, "claim of jobs that were released", held, want)
		late := newJob()
		late.Priority = 1
		enqueue(t, h, late)
		released := outcomes(queue.Release, held...)
		released[2].Delay = -time.Hour // as 0
		settle(t, h, released...)
	}
	if again := claim(t, h, request(1)); !again[0].ScheduledAt.Equal(jobs[1].ScheduledAt) {
		t.Errorf("ScheduledAt of a job that was released three times: got %v, want %v as it was", again[0].ScheduledAt, jobs[1].ScheduledAt)
	}
}

func testSettleNothing(t *testing.T, h Harness) {
	if lost, err := h.Queue.Settle(t.Context(), nil); err != nil || len(lost) != 0 {
		t.Errorf("Settle of nothing: lost %v, error %v; want neither", ids(lost), err)
	}
	if lost, _, err := h.Queue.Extend(t.Context(), longLease); err != nil || len(lost) != 0 {
		t.Errorf("Extend of nothing: lost %v, error %v; want neither", ids(lost), err)
	}
}

func testLargeBatch(t *testing.T, h Harness) {
	const n = 10_000
	jobs := newJobs(n, func(i int, j *queue.Job) { j.Payload = fmt.Appendf(nil, "%d", i) })
	enqueue(t, h, jobs...)
	held := claim(t, h, request(n))
	if len(held) != n {
		t.Fatalf("Claim with limit %d: got %d jobs", n, len(held))
	}
	for i, j := range held {
		if j.ID != jobs[i].ID || string(j.Payload) != fmt.Sprint(i) {
			t.Fatalf("claimed job %d: got ID %d, payload %s; want %d, %d", i, j.ID, j.Payload, jobs[i].ID, i)
		}
	}
	wantHeld(t, h, "of 10,000 jobs", held...)
	var batch []queue.Outcome
	for i, j := range held {
		batch = append(batch, queue.Outcome{Job: j, Action: queue.OutcomeAction(i % 4), Delay: time.Hour, Err: errors.New("boom")})
	}
	settle(t, h, batch...)
	lost, err := h.Queue.Settle(t.Context(), nil, batch...)
	if err != nil || len(lost) != n {
		t.Errorf("Settle of the same %d again: %d lost, error %v; want all lost", n, len(lost), err)
	}
	claimNone(t, h, "after all were settled")
}
