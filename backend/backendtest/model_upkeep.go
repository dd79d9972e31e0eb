package backendtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"pgregory.net/rapid"
)

// redrive redrives one job, or the dead jobs of a queue or kind. Of dead jobs with one key the
// backend chooses one, so the model looks which one it has chosen.
func (m *model) redrive(rt *rapid.T) {
	editor, _ := driver.As[driver.Editor](m.h.Queue)
	var dead []*modelJob
	for _, j := range m.jobs {
		if j.Status == queue.StatusDead {
			dead = append(dead, j)
		}
	}
	if len(dead) == 0 {
		return
	}
	slices.SortFunc(dead, func(a, b *modelJob) int { return cmp.Compare(a.ID, b.ID) })
	one := rapid.SampledFrom(dead).Draw(rt, "dead")
	which := queue.Selection{IDs: []int64{one.ID}}
	inspector, canLook := driver.As[driver.Inspector](m.h.Queue)
	if canLook && rapid.Bool().Draw(rt, "all of its queue") {
		which = queue.Selection{Queue: one.Queue, Kind: rapid.SampledFrom([]string{"", "k"}).Draw(rt, "kind")}
	}
	want := m.redrivable(dead, which)
	n, err := editor.Redrive(m.ctx, nil, which)
	if err != nil || n != len(want) {
		rt.Fatalf("Redrive(%+v): got %d, error %v; want %d", which, n, err, len(want))
	}
	for _, j := range dead {
		if !chosen(which, &j.Record) || want[rivals(j)] == 0 {
			continue
		}
		if want[rivals(j)] > 1 {
			if rec, _, err := inspector.Job(m.ctx, j.ID); err != nil || rec.Status != queue.StatusPending {
				continue
			}
		}
		delete(want, rivals(j))
		j.Status, j.Attempt, j.LastError, j.due = queue.StatusPending, 0, "", lately
		j.Redrives++
	}
	if len(want) != 0 {
		rt.Fatalf("Redrive(%+v): none is pending of %v", which, want)
	}
}

// rivals returns a name for the dead jobs with one key, of which only one can be redriven.
func rivals(j *modelJob) string {
	return fmt.Sprint(j.Queue, " ", cmp.Or(j.Key, fmt.Sprint(j.ID)))
}

// redrivable counts the chosen dead jobs by free key, and counts each job without a key by itself.
// Of the jobs with one key, one will be redriven.
func (m *model) redrivable(dead []*modelJob, which queue.Selection) map[string]int {
	groups := make(map[string]int)
	for _, j := range dead {
		if chosen(which, &j.Record) && m.live(j.Queue, j.Key) == nil {
			groups[rivals(j)]++
		}
	}
	return groups
}

// remove deletes one job, which may run, or the pending or dead jobs of a queue and kind.
func (m *model) remove(rt *rapid.T, db queue.DB) {
	editor, _ := driver.As[driver.Editor](m.h.Queue)
	all := slices.SortedFunc(maps.Values(m.jobs), func(a, b *modelJob) int { return cmp.Compare(a.ID, b.ID) })
	all = slices.DeleteFunc(all, func(j *modelJob) bool { return j.Status == queue.StatusCompleted }) // it may not be kept
	if len(all) == 0 {
		return
	}
	one := rapid.SampledFrom(all).Draw(rt, "job")
	which := queue.Selection{IDs: []int64{one.ID}}
	if rapid.Bool().Draw(rt, "all of its queue") {
		which = queue.Selection{
			Queue: one.Queue, Kind: rapid.SampledFrom([]string{"", "k"}).Draw(rt, "kind"),
			Status: rapid.SampledFrom([]queue.Status{queue.StatusPending, queue.StatusDead}).Draw(rt, "status"),
		}
	}
	want := 0
	for _, j := range all {
		if which.Matches(&j.Record) && j.Status != queue.StatusRunning && (which.Status == "" || which.Status == j.Status) {
			delete(m.jobs, j.ID)
			want++
		}
	}
	n, err := editor.Delete(m.ctx, db, which)
	if err != nil || n != want {
		rt.Fatalf("Delete(%+v): got %d, error %v; want %d", which, n, err, want)
	}
}

// crash claims jobs and lets their leases expire.
func (m *model) crash(rt *rapid.T) {
	reclaimer, _ := driver.As[driver.Reclaimer](m.h.Queue)
	req := m.request(rt)
	req.Lease, req.Limit = time.Millisecond, 2
	expired := m.take(rt, req)
	for end := time.Now().Add(patience); len(expired) > 0; {
		got, err := reclaimer.Reclaim(m.ctx, 10)
		if err != nil || time.Now().After(end) {
			rt.Fatalf("Reclaim of %d expired jobs: error %v after at most %v", len(expired), err, patience)
		}
		for _, r := range got {
			left := slices.DeleteFunc(slices.Clone(expired), func(j *queue.Job) bool { return j.ID == r.ID })
			if len(left) == len(expired) {
				rt.Fatalf("Reclaim: got job %d, want one of %v", r.ID, ids(expired))
			}
			expired = left
			m.reclaimed(rt, r)
		}
	}
}

// reclaimed applies to the model that a job's lease has expired.
func (m *model) reclaimed(rt *rapid.T, got *queue.Job) {
	j := m.jobs[got.ID]
	if got.Attempt != j.Attempt || got.LastError == "" {
		rt.Fatalf("Reclaim: got job %d in attempt %d, LastError %q; want attempt %d, and the reason",
			got.ID, got.Attempt, got.LastError, j.Attempt)
	}
	m.drop(got.ID)
	j.LastError, j.Status, j.due = got.LastError, queue.StatusPending, lately
	switch {
	case got.ScheduledAt.Equal(m.hour): // it may keep its place
		j.due = anHourAgo
	case got.ScheduledAt.Equal(m.hour.Add(-time.Hour)):
		j.due = twoHoursAgo
	}
	if j.Attempt >= j.MaxAttempts {
		j.Status = queue.StatusDead
	}
}
