package backendtest

import (
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"pgregory.net/rapid"
)

func (m *model) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"enqueue": func(rt *rapid.T) { m.enqueue(rt, nil) },
		"claim":   m.claim,
		"settle":  func(rt *rapid.T) { m.settle(rt, nil) },
		"extend":  m.extend,
	}
	if m.h.Begin != nil {
		actions["transaction"] = m.transaction
	}
	if can[driver.Editor](m.h) {
		actions["redrive"] = m.redrive
	}
	if can[driver.Editor](m.h) {
		actions["delete"] = func(rt *rapid.T) { m.remove(rt, nil) }
	}
	if can[driver.Reclaimer](m.h) {
		actions["crash"] = m.crash
	}
	return actions
}

// transaction runs some operations in a transaction, and forgets them if it rolls back.
func (m *model) transaction(rt *rapid.T) {
	tx, err := m.h.Begin(m.ctx)
	if err != nil {
		rt.Fatalf("Begin: %v", err)
	}
	defer func() { _ = tx.Rollback() }()
	before := m.state
	m.state = before.clone()
	operations := []func(*rapid.T, queue.DB){m.enqueue, m.settle}
	if can[driver.Editor](m.h) {
		operations = append(operations, m.remove)
	}
	for range rapid.IntRange(1, 3).Draw(rt, "operations") {
		operations[rapid.IntRange(0, len(operations)-1).Draw(rt, "operation")](rt, tx)
	}
	end := tx.Commit
	if !rapid.Bool().Draw(rt, "commit") {
		end = tx.Rollback
		m.state = before
	}
	if err := end(); err != nil {
		rt.Fatalf("end of the transaction: %v", err)
	}
}

func (m *model) enqueue(rt *rapid.T, db queue.DB) {
	jobs := make([]*queue.Job, rapid.IntRange(1, 4).Draw(rt, "jobs"))
	when := make([]due, len(jobs))
	for i := range jobs {
		jobs[i] = &queue.Job{
			Queue:       rapid.SampledFrom(m.queues).Draw(rt, "queue"),
			Kind:        rapid.SampledFrom([]string{"k", "l"}).Draw(rt, "kind"),
			Key:         rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(rt, "key"),
			Priority:    rapid.Int32Range(-1, 1).Draw(rt, "priority"),
			MaxAttempts: rapid.IntRange(1, 3).Draw(rt, "max attempts"),
		}
		if jobs[i].Key != "" {
			jobs[i].OnDuplicate = rapid.SampledFrom([]queue.OnDuplicate{queue.Keep, queue.Replace}).Draw(rt, "on duplicate")
		}
		when[i] = rapid.SampledFrom([]due{twoHoursAgo, anHourAgo, lately, lately, inAnHour}).Draw(rt, "due")
		switch when[i] {
		case twoHoursAgo:
			jobs[i].ScheduledAt = m.hour.Add(-time.Hour)
		case anHourAgo:
			jobs[i].ScheduledAt = m.hour
		case inAnHour:
			jobs[i].Delay = time.Hour
		}
	}
	if err := m.h.Queue.Enqueue(m.ctx, db, jobs...); err != nil {
		rt.Fatalf("Enqueue: %v", err)
	}
	last := int64(0)
	for i, j := range jobs {
		live := m.live(j.Queue, j.Key)
		replaces := live != nil && j.OnDuplicate == queue.Replace
		if live != nil && (!replaces || live.Status == queue.StatusPending) {
			if j.Duplicate == replaces || j.Replaced != replaces || j.ID != live.ID {
				rt.Fatalf("Enqueue of key %q, %q: got ID %d, Duplicate %v, Replaced %v; want %d", j.Key, j.OnDuplicate, j.ID, j.Duplicate, j.Replaced, live.ID)
			}
			if replaces {
				live.replace(j, when[i])
			}
			continue
		}
		if replaces {
			live.Key = ""
		}
		if m.jobs[j.ID] != nil || j.Duplicate || j.Replaced || j.ID <= last {
			rt.Fatalf("Enqueue of key %q: got ID %d, Duplicate %v, Replaced %v; want a new ID, above %d", j.Key, j.ID, j.Duplicate, j.Replaced, last)
		}
		last = j.ID
		m.jobs[j.ID] = &modelJob{queue.Record{Job: *j, Status: queue.StatusPending}, when[i]}
	}
}

// replace puts job in the place of the pending job j.
func (j *modelJob) replace(job *queue.Job, when due) {
	record := queue.Record{Job: *job, Status: queue.StatusPending, Redrives: j.Redrives}
	if when == lately {
		when = min(when, j.due) // a job that is due keeps its place
	}
	*j = modelJob{record, when}
}

func (m *model) request(rt *rapid.T) queue.ClaimRequest {
	req := queue.ClaimRequest{
		Queues: rapid.Permutation(m.queues).Draw(rt, "queues"),
		Kinds:  rapid.SampledFrom([][]string{nil, nil, {"k"}, {"l", "k"}}).Draw(rt, "kinds"),
		Limit:  rapid.IntRange(1, 5).Draw(rt, "limit"),
		Worker: rapid.SampledFrom([]string{"w1", "w2"}).Draw(rt, "worker"),
		Lease:  24 * time.Hour,
	}
	req.Queues = req.Queues[:rapid.IntRange(1, 2).Draw(rt, "of queues")]
	return req
}

func (m *model) claim(rt *rapid.T) { m.take(rt, m.request(rt)) }

// take claims and checks what it gets.
func (m *model) take(rt *rapid.T, req queue.ClaimRequest) []*queue.Job {
	got, err := m.h.Queue.Claim(m.ctx, req)
	if err != nil {
		rt.Fatalf("Claim: %v", err)
	}
	want := m.claimable(req)
	if len(got) != len(want) {
		rt.Fatalf("Claim(%+v): got jobs %v, want %d", req, ids(got), len(want))
	}
	for i, j := range got {
		m.checkClaimed(rt, req, j, want[i])
		if i > 0 && j.Queue == got[i-1].Queue && claimedBefore(&queue.Record{Job: *j}, &queue.Record{Job: *got[i-1]}) {
			rt.Fatalf("Claim(%+v): got job %d before %d, want the reverse", req, got[i-1].ID, j.ID)
		}
		if j.Fence != got[0].Fence || m.fences[j.Fence] {
			rt.Fatalf("Claim: got fences %v, want one that was never drawn", fences(got))
		}
		job := m.jobs[j.ID]
		job.Status, job.Attempt = queue.StatusRunning, j.Attempt
		m.held[j.ID] = j
	}
	if len(got) > 0 {
		m.fences[got[0].Fence] = true
	}
	return got
}

// checkClaimed checks one claimed job. The model does not know the order of jobs that became due
// lately, only their place among the others.
func (m *model) checkClaimed(rt *rapid.T, req queue.ClaimRequest, got *queue.Job, place *modelJob) {
	want := m.jobs[got.ID]
	if want == nil || want.Status != queue.StatusPending || want.Queue != place.Queue ||
		want.Priority != place.Priority || want.due != place.due || want.due != lately && want != place ||
		len(req.Kinds) > 0 && !slices.Contains(req.Kinds, want.Kind) {
		rt.Fatalf("Claim(%+v): got job %d, want %d in its place", req, got.ID, place.ID)
	}
	if got.Attempt != want.Attempt+1 || got.LastError != want.LastError || got.Kind != want.Kind || got.Key != want.Key ||
		got.Priority != want.Priority || got.MaxAttempts != want.MaxAttempts || got.Worker != req.Worker {
		rt.Fatalf("Claim(%+v): got %+v\nwant %+v with its next attempt", req, got, want.Record)
	}
}

// presented draws some current claims and some old ones, each of a different job, and returns which
// of them are lost.
func (m *model) presented(rt *rapid.T) (some, lost []*queue.Job) {
	seen := make(map[int64]bool)
	pick := func(from []*queue.Job, old bool) {
		if len(from) == 0 {
			return
		}
		for range rapid.IntRange(0, 3).Draw(rt, "claims") {
			j := rapid.SampledFrom(from).Draw(rt, "claim")
			if seen[j.ID] {
				continue
			}
			seen[j.ID] = true
			some = append(some, j)
			if old {
				lost = append(lost, j)
			}
		}
	}
	pick(m.old, true)
	pick(m.heldJobs(), false)
	return some, lost
}

func checkLost(rt *rapid.T, operation string, some, got, want []*queue.Job, err error) {
	if err != nil {
		rt.Fatalf("%s of %v: %v", operation, ids(some), err)
	}
	g, w := ids(got), ids(want)
	slices.Sort(g)
	slices.Sort(w)
	if !slices.Equal(g, w) {
		rt.Fatalf("%s of jobs %v with fences %v: lost %v, want %v", operation, ids(some), fences(some), g, w)
	}
}

func (m *model) settle(rt *rapid.T, db queue.DB) {
	some, wantLost := m.presented(rt)
	batch := make([]queue.Outcome, len(some))
	for i, j := range some {
		batch[i] = queue.Outcome{
			Job: j, Err: errOf(rt),
			Action: rapid.SampledFrom([]queue.OutcomeAction{queue.Done, queue.Retry, queue.Dead, queue.Release}).Draw(rt, "action"),
			Delay:  rapid.SampledFrom([]time.Duration{0, 0, -time.Hour, time.Hour}).Draw(rt, "delay"),
		}
	}
	lost, err := m.h.Queue.Settle(m.ctx, db, batch...)
	checkLost(rt, "Settle", some, lost, wantLost, err)
	for _, o := range batch {
		if m.held[o.Job.ID] == o.Job {
			m.apply(o)
		}
	}
}

func (m *model) extend(rt *rapid.T) {
	some, wantLost := m.presented(rt)
	lost, _, err := m.h.Queue.Extend(m.ctx, 24*time.Hour, some...)
	checkLost(rt, "Extend", some, lost, wantLost, err)
}
