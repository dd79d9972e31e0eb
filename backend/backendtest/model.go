package backendtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"pgregory.net/rapid"
)

var modelCases = []testCase{
	{"operations", isFull, testModel},
}

// testModel runs random operations on the backend and on a model of it. The model predicts the
// results of each operation, except the numbers that the backend draws. All sequences run in one
// database, each in its own queues.
func testModel(t *testing.T, h Harness) {
	check := 0
	rapid.Check(t, func(rt *rapid.T) {
		check++
		m := &model{
			h: h, ctx: t.Context(), fences: make(map[int64]bool),
			queues: []string{fmt.Sprintf("m%d.a", check), fmt.Sprintf("m%d.b", check)},
			hour:   time.Now().Add(-time.Hour).Truncate(time.Hour),
			state:  &state{jobs: make(map[int64]*modelJob), held: make(map[int64]*queue.Job)},
		}
		rt.Repeat(m.actions())
		m.compare(rt)
	})
}

// model runs operations and checks what they return.
type model struct {
	*state
	h      Harness
	ctx    context.Context
	queues []string
	hour   time.Time // an hour or two ago
	fences map[int64]bool
}

// modelJob is what the model knows about a job.
type modelJob struct {
	queue.Record
	due due
}

// due is when a pending job is due, as far as the order of claims needs to know.
type due int

const (
	twoHoursAgo due = iota - 2
	anHourAgo
	lately // at some time since the sequence began
	inAnHour
)

// state is what a transaction changes, and what a rollback restores.
type state struct {
	jobs map[int64]*modelJob
	held map[int64]*queue.Job // the claims that hold a job, by its ID
	old  []*queue.Job         // claims that no longer hold their job
}

func (s *state) clone() *state {
	c := &state{make(map[int64]*modelJob, len(s.jobs)), maps.Clone(s.held), slices.Clone(s.old)}
	for id, j := range s.jobs {
		job := *j
		c.jobs[id] = &job
	}
	return c
}

// live returns the live job that has the key; nil if the key is free.
func (s *state) live(name, key string) *modelJob {
	for _, j := range s.jobs {
		if key != "" && j.Queue == name && j.Key == key && isLive(&j.Record) {
			return j
		}
	}
	return nil
}

// claimable returns the jobs that a claim takes, in order.
func (s *state) claimable(req queue.ClaimRequest) []*modelJob {
	var jobs []*modelJob
	for _, j := range s.jobs {
		if j.Status == queue.StatusPending && j.due != inAnHour && slices.Contains(req.Queues, j.Queue) &&
			(len(req.Kinds) == 0 || slices.Contains(req.Kinds, j.Kind)) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *modelJob) int {
		return cmp.Or(
			cmp.Compare(slices.Index(req.Queues, a.Queue), slices.Index(req.Queues, b.Queue)),
			cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.due, b.due), cmp.Compare(a.ID, b.ID))
	})
	return jobs[:min(len(jobs), req.Limit)]
}

// apply applies an outcome to a job whose holder settles it.
func (s *state) apply(o queue.Outcome) {
	j := s.jobs[o.Job.ID]
	s.drop(j.ID)
	when := lately
	switch {
	case o.Delay > 0:
		when = inAnHour
	case o.Action == queue.Release:
		when = j.due
	}
	switch o.Action {
	case queue.Done:
		j.Status = queue.StatusCompleted
	case queue.Dead:
		j.Status, j.LastError = queue.StatusDead, queue.ErrorText(o.Err)
	case queue.Release:
		j.Status, j.due = queue.StatusPending, when
		j.Attempt--
	case queue.Retry:
		j.LastError = queue.ErrorText(o.Err)
		j.Status, j.due = queue.StatusPending, when
		if j.Attempt >= j.MaxAttempts {
			j.Status = queue.StatusDead
		}
	}
}

// drop makes the claim of a job an old one.
func (s *state) drop(id int64) {
	s.old = append(s.old, s.held[id])
	delete(s.held, id)
}

func (s *state) heldJobs() []*queue.Job {
	return slices.SortedFunc(maps.Values(s.held), func(a, b *queue.Job) int { return cmp.Compare(a.ID, b.ID) })
}

// compare compares every job of the model with the backend's record of it, if the backend is an
// Inspector.
func (m *model) compare(rt *rapid.T) {
	inspector, ok := driver.As[driver.Inspector](m.h.Queue)
	if !ok {
		return
	}
	shown := 0
	for _, name := range m.queues {
		records, _, err := inspector.Jobs(m.ctx, queue.Filter{Queue: name, Limit: 1000})
		if err != nil {
			rt.Fatalf("Jobs of queue %s: %v", name, err)
		}
		shown += len(records)
		for _, got := range records {
			m.compareOne(rt, got)
		}
	}
	kept := 0
	for _, j := range m.jobs {
		if j.Status != queue.StatusCompleted {
			kept++
		}
	}
	if shown < kept || shown > len(m.jobs) {
		rt.Fatalf("the backend shows %d jobs, want %d, or %d without the completed", shown, len(m.jobs), kept)
	}
}

func (m *model) compareOne(rt *rapid.T, got queue.Record) {
	want, ok := m.jobs[got.ID]
	if !ok {
		rt.Fatalf("the backend shows job %d, which was never written: %+v", got.ID, got)
	}
	holder := m.held[got.ID]
	if got.Status != want.Status || got.Attempt != want.Attempt || got.LastError != want.LastError ||
		got.Redrives != want.Redrives || got.Kind != want.Kind || got.Key != want.Key || got.Priority != want.Priority || got.MaxAttempts != want.MaxAttempts {
		rt.Fatalf("the backend shows of job %d\n     %+v\nwant %+v", got.ID, got, want.Record)
	}
	if holder != nil && (got.Worker != holder.Worker || got.Fence != holder.Fence) {
		rt.Fatalf("the backend shows job %d with worker %s, fence %d; want %s, %d", got.ID, got.Worker, got.Fence, holder.Worker, holder.Fence)
	}
}

// errOf draws the error of an outcome.
func errOf(rt *rapid.T) error {
	text := rapid.SampledFrom([]string{"", "boom", "nul \x00", "utf \xff"}).Draw(rt, "error")
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// isLive reports whether the job holds its key.
func isLive(r *queue.Record) bool {
	return r.Status == queue.StatusPending || r.Status == queue.StatusRunning
}

// claimedBefore reports whether a is claimed before b, of the same queue.
func claimedBefore(a, b *queue.Record) bool {
	due := a.ScheduledAt.Compare(b.ScheduledAt)
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), due, cmp.Compare(a.ID, b.ID)) < 0
}

// chosen reports whether which chooses the dead job.
func chosen(which queue.Selection, r *queue.Record) bool {
	return r.Status == queue.StatusDead && which.Matches(r)
}
