package backendtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var timesCases = []testCase{
	{"of a run that ends", hasInspector, testTimesOfRun},
	{"of a second run", hasInspector, testTimesOfSecondRun},
	{"of a reclaimed run", hasInspector | hasReclaimer, testTimesOfReclaimed},
	{"of a run in a transaction", hasInspector | hasTxClaimer, testTimesInTx},
	{"running for long", hasInspector, testRunningFor},
	{"running for nonsense", hasInspector, testRunningForNonsense},
	{"created and finished between", hasInspector | isInOrder, testBetween},
	{"between nonsense", hasInspector, testBetweenNonsense},
	{"of redrives", hasInspector | hasEditor, testTimesOfRedrives},
}

// wantTimes checks which times a record has.
func wantTimes(t *testing.T, when string, rec queue.Record, started, finished bool) {
	t.Helper()
	if rec.StartedAt.IsZero() == started || rec.FinishedAt.IsZero() == finished {
		t.Errorf("record of job %d %s: got StartedAt %v and FinishedAt %v; want them set: %v and %v",
			rec.ID, when, rec.StartedAt, rec.FinishedAt, started, finished)
	}
	if finished && rec.FinishedAt.Before(rec.StartedAt) {
		t.Errorf("record of job %d %s: got FinishedAt %v before StartedAt %v", rec.ID, when, rec.FinishedAt, rec.StartedAt)
	}
}

// testTimesOfRun: a heartbeat moves LockedAt and leaves StartedAt, and the end of a job keeps it.
func testTimesOfRun(t *testing.T, h Harness) {
	for _, c := range []struct {
		action queue.OutcomeAction
		ends   bool
	}{{queue.Done, true}, {queue.Dead, true}, {queue.Retry, false}, {queue.Release, false}} {
		j := newJob()
		enqueue(t, h, j)
		rec, _ := lookUp(t, h, j.ID)
		wantTimes(t, "before its run", rec, false, false)
		held := claimOne(t, h)
		began, _ := lookUp(t, h, j.ID)
		wantTimes(t, "while it runs", began, true, false)
		if began.StartedAt.Before(began.CreatedAt) || began.StartedAt.Before(began.ScheduledAt) {
			t.Errorf("record of job %d: got StartedAt %v; want it after the job was enqueued, %v, and due, %v",
				j.ID, began.StartedAt, began.CreatedAt, began.ScheduledAt)
		}
		poll(t, "an extension to move LockedAt", func() bool {
			wantHeld(t, h, "before the end", held)
			rec, _ = lookUp(t, h, j.ID)
			return rec.LockedAt.After(began.LockedAt)
		})
		if !rec.StartedAt.Equal(began.StartedAt) || !rec.UpdatedAt.Equal(began.UpdatedAt) {
			t.Errorf("record of job %d after Extend: got StartedAt %v and UpdatedAt %v; want %v and %v, as before",
				j.ID, rec.StartedAt, rec.UpdatedAt, began.StartedAt, began.UpdatedAt)
		}
		settle(t, h, queue.Outcome{Job: held, Action: c.action, Delay: time.Hour})
		ended, ok := lookUp(t, h, j.ID)
		if !ok && c.action == queue.Done {
			continue // it is not kept
		}
		wantTimes(t, fmt.Sprintf("after %v", c.action), ended, c.ends, c.ends)
		if c.ends && (!ended.StartedAt.Equal(began.StartedAt) || ended.FinishedAt.Before(rec.LockedAt)) {
			t.Errorf("record of job %d after %v: got StartedAt %v and FinishedAt %v; want %v, and after the last extension at %v",
				j.ID, c.action, ended.StartedAt, ended.FinishedAt, began.StartedAt, rec.LockedAt)
		}
	}
}

// testTimesOfSecondRun: a retried job's times are those of its last run.
func testTimesOfSecondRun(t *testing.T, h Harness) {
	j := newJob()
	enqueue(t, h, j)
	held := claimOne(t, h)
	first, _ := lookUp(t, h, j.ID)
	poll(t, "the second run to begin after the first", func() bool {
		settle(t, h, queue.Outcome{Job: held, Action: queue.Release})
		held = claimSoon(t, h, request(1), 1)[0]
		second, _ := lookUp(t, h, j.ID)
		return second.StartedAt.After(first.StartedAt)
	})
}

// testTimesOfReclaimed: a job that is pending again after a crash has no times, and a dead one has
// both.
func testTimesOfReclaimed(t *testing.T, h Harness) {
	for _, attempts := range []int{2, 1} {
		j := newJob()
		j.MaxAttempts = attempts
		enqueue(t, h, j)
		claim(t, h, short(request(1)))
		began, _ := lookUp(t, h, j.ID)
		awaitReclaim(t, h, 1)
		rec, _ := lookUp(t, h, j.ID)
		isDead := attempts == 1
		wantTimes(t, "after its lease has expired", rec, isDead, isDead)
		if isDead && !rec.StartedAt.Equal(began.StartedAt) {
			t.Errorf("record of job %d after its lease has expired: got StartedAt %v, want %v", j.ID, rec.StartedAt, began.StartedAt)
		}
		if !isDead {
			settle(t, h, outcomes(queue.Dead, claimOne(t, h))...)
		}
	}
}

// testTimesInTx: a job of ClaimTx has both times once it has ended, settled or not.
func testTimesInTx(t *testing.T, h Harness) {
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	for _, c := range []struct {
		settle bool
		action queue.OutcomeAction
		ends   bool
	}{{false, 0, true}, {true, queue.Done, true}, {true, queue.Dead, true}, {true, queue.Retry, false}} {
		j := newJob()
		enqueue(t, h, j)
		tx := begin(t, h)
		held, err := claimer.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"q"}})
		if err != nil || held == nil || held.ID != j.ID {
			t.Fatalf("ClaimTx: got %+v, error %v; want job %d", held, err, j.ID)
		}
		when := "after ClaimTx"
		if c.settle {
			when = fmt.Sprintf("after ClaimTx and %v", c.action)
			settleIn(t, h, tx, queue.Outcome{Job: held, Action: c.action, Delay: time.Hour})
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if rec, ok := lookUp(t, h, j.ID); ok {
			wantTimes(t, when, rec, c.ends, c.ends)
		}
	}
}

// testRunningFor: the filter finds the run that has lasted that long, however often its lease was
// extended.
func testRunningFor(t *testing.T, h Harness) {
	const aWhile = 200 * time.Millisecond
	jobs := newJobs(4, func(i int, j *queue.Job) { j.Kind = []string{"k", "l"}[i%2] })
	enqueue(t, h, jobs...)
	held := claim(t, h, request(2))
	listed := func(f queue.Filter) []*queue.Job {
		got, _ := list(t, h, f)
		return got
	}
	poll(t, "both jobs to have run for a while", func() bool {
		wantHeld(t, h, "while it is waited for", held...)
		return len(listed(queue.Filter{RunningFor: aWhile})) == 2
	})
	for _, rec := range []*queue.Job{held[0], held[1]} {
		r, _ := lookUp(t, h, rec.ID)
		if r.LockedAt.Sub(r.StartedAt) <= 0 {
			t.Errorf("record of job %d: got LockedAt %v, want it after StartedAt %v", rec.ID, r.LockedAt, r.StartedAt)
		}
	}
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Dead, Err: errors.New("boom")})
	later := claim(t, h, request(1))
	for _, c := range []struct {
		filter queue.Filter
		want   []*queue.Job
	}{
		{queue.Filter{RunningFor: 1}, append(later, held[1])},
		{queue.Filter{RunningFor: aWhile, Before: later[0].ID}, held[1:]},
		{queue.Filter{RunningFor: aWhile, Before: later[0].ID, Kind: "l", Status: queue.StatusRunning}, held[1:]},
		{queue.Filter{RunningFor: aWhile, Before: later[0].ID, Kind: "k"}, nil},
		{queue.Filter{RunningFor: aWhile, Queue: "p"}, nil},
		{queue.Filter{RunningFor: time.Hour}, nil},
		{queue.Filter{RunningFor: 1<<63 - 1}, nil},
	} {
		if len(c.want) == 2 {
			poll(t, "a microsecond to pass", func() bool { return len(listed(c.filter)) == 2 })
		}
		wantIDs(t, fmt.Sprintf("Jobs(%+v)", c.filter), listed(c.filter), c.want)
	}
}

func testRunningForNonsense(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	for _, f := range []queue.Filter{
		{RunningFor: -1}, {RunningFor: -time.Hour, Status: queue.StatusRunning}, {RunningFor: 1, Status: queue.StatusDead},
		{RunningFor: time.Hour, Status: queue.StatusPending},
	} {
		var invalid *queue.InvalidError
		if _, _, err := inspector.Jobs(t.Context(), f); !errors.As(err, &invalid) || invalid.Field != "RunningFor" {
			t.Errorf("Jobs(%+v): got error %v, want an InvalidError of RunningFor", f, err)
		}
	}
}

// testBetween: a filter finds the jobs that were created or have finished between two times.
func testBetween(t *testing.T, h Harness) {
	jobs := newJobs(4, nil)
	var created []time.Time
	for _, j := range jobs {
		enqueue(t, h, j)
		rec, _ := lookUp(t, h, j.ID)
		created = append(created, rec.CreatedAt)
	}
	var finished []time.Time
	for _, j := range claim(t, h, request(2)) {
		settle(t, h, queue.Outcome{Job: j, Action: queue.Dead, Err: errors.New("boom")})
		rec, _ := lookUp(t, h, j.ID)
		finished = append(finished, rec.FinishedAt)
	}
	claim(t, h, request(1))
	const dead = queue.StatusDead
	for _, c := range []struct {
		filter queue.Filter
		want   []int
	}{
		{queue.Filter{CreatedFrom: created[1]}, []int{3, 2, 1}},
		{queue.Filter{CreatedTo: created[1]}, []int{0}},
		{queue.Filter{CreatedFrom: created[1], CreatedTo: created[3]}, []int{2, 1}},
		{queue.Filter{CreatedFrom: created[1], Limit: 2}, []int{3, 2}},
		{queue.Filter{CreatedFrom: created[1], Status: dead}, []int{1}},
		{queue.Filter{CreatedTo: created[2], Status: dead, Bare: true}, []int{1, 0}},
		{queue.Filter{CreatedFrom: created[1], Status: queue.StatusRunning}, []int{2}},
		{queue.Filter{CreatedTo: created[3], Status: queue.StatusPending}, nil},
		{queue.Filter{CreatedFrom: created[3], Status: queue.StatusPending}, []int{3}},
		{queue.Filter{CreatedFrom: created[3].Add(time.Hour)}, nil},
		{queue.Filter{FinishedFrom: finished[1]}, []int{1}},
		{queue.Filter{FinishedTo: finished[1]}, []int{0}},
		{queue.Filter{FinishedTo: finished[1].Add(time.Hour)}, []int{1, 0}},
		{queue.Filter{FinishedFrom: finished[1], Status: dead}, []int{1}},
		{queue.Filter{FinishedTo: finished[1], Status: dead}, []int{0}},
		{queue.Filter{FinishedFrom: finished[0].In(time.FixedZone("zone", 3600)), Status: dead, Before: jobs[1].ID}, []int{0}},
		{queue.Filter{FinishedFrom: finished[0], FinishedTo: finished[1], CreatedFrom: created[1]}, nil},
		{queue.Filter{FinishedFrom: finished[1].Add(time.Hour), Status: dead, Bare: true}, nil},
		{queue.Filter{FinishedFrom: finished[0], Status: queue.StatusCancelled}, nil},
	} {
		var want []*queue.Job
		for _, i := range c.want {
			want = append(want, jobs[i])
		}
		got, _ := list(t, h, c.filter)
		wantIDs(t, fmt.Sprintf("Jobs(%+v)", c.filter), got, want)
	}
}

func testBetweenNonsense(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	at := time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		filter queue.Filter
		want   string
	}{
		{queue.Filter{CreatedFrom: at, CreatedTo: at}, "CreatedTo"},
		{queue.Filter{FinishedFrom: at, FinishedTo: at.Add(-time.Hour)}, "FinishedTo"},
		{queue.Filter{CreatedFrom: at.AddDate(9000, 0, 0)}, "CreatedFrom"},
		{queue.Filter{FinishedTo: at.AddDate(-100, 0, 0)}, "FinishedTo"},
		{queue.Filter{FinishedFrom: at, Status: queue.StatusPending}, "Status"},
		{queue.Filter{FinishedTo: at, Status: queue.StatusHeld}, "Status"},
	} {
		var invalid *queue.InvalidError
		if _, _, err := inspector.Jobs(t.Context(), c.filter); !errors.As(err, &invalid) || invalid.Field != c.want {
			t.Errorf("Jobs(%+v): got error %v, want an InvalidError of %s", c.filter, err, c.want)
		}
	}
}

// testTimesOfRedrives: a record counts redrives, and keeps the count through later runs. A redriven
// job is like one that has never run, otherwise.
func testTimesOfRedrives(t *testing.T, h Harness) {
	j, other := newJob(), newJob()
	kill(t, h, j, other)
	var last queue.Record
	for n := 1; n <= 2; n++ {
		dead, _ := lookUp(t, h, j.ID)
		if dead.Redrives != n-1 || !dead.RedrivenAt.Equal(last.RedrivenAt) {
			t.Errorf("record before redrive %d: got %d of them, the last at %v; want the last at %v", n, dead.Redrives, dead.RedrivenAt, last.RedrivenAt)
		}
		redrive(t, h, queue.Selection{IDs: []int64{j.ID}}, 1)
		last, _ = lookUp(t, h, j.ID)
		if last.Redrives != n || last.RedrivenAt.Before(dead.FinishedAt) {
			t.Errorf("record after redrive %d: got %d of them, the last at %v; want it after %v", n, last.Redrives, last.RedrivenAt, dead.FinishedAt)
		}
		wantTimes(t, "after Redrive", last, false, false)
		settle(t, h, outcomes(queue.Dead, claimOne(t, h))...)
	}
	if rec, _ := lookUp(t, h, other.ID); rec.Redrives != 0 || !rec.RedrivenAt.IsZero() {
		t.Errorf("record of a job that was not redriven: got %d redrives, the last at %v", rec.Redrives, rec.RedrivenAt)
	}
}
