package backendtest

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

// declare declares schedules, and checks how many have changed.
func declare(t *testing.T, h Harness, release int64, want int, schedules ...queue.Schedule) {
	t.Helper()
	n, err := runner(h).DeclareSchedules(t.Context(), nil, queue.Declaration{Schedules: schedules, Release: release})
	if n != want || err != nil {
		t.Fatalf("DeclareSchedules of %d by release %d: got %d, error %v; want %d", len(schedules), release, n, err, want)
	}
}

// daily returns a schedule at that hour.
func daily(name, hour string) queue.Schedule {
	return queue.Schedule{Name: name, Spec: "0 " + hour + " * * *", Job: newJob()}
}

// wantSpec checks the expression of the only schedule.
func wantSpec(t *testing.T, h Harness, when, spec string) queue.ScheduleRecord {
	t.Helper()
	got := listSchedules(t, h, 1)[0]
	if got.Spec != spec {
		t.Fatalf("schedule %s: got %q, want %q", when, got.Spec, spec)
	}
	return got
}

func testDeclare(t *testing.T, h Harness) {
	declare(t, h, 1, 0)
	declare(t, h, 1, 1, daily("a", "1"))
	h.Rewind(t, time.Hour)
	before := wantSpec(t, h, "that is new", "0 1 * * *")
	declare(t, h, 1, 0, daily("a", "1"))
	declare(t, h, 2, 0, daily("a", "1"))
	after := wantSpec(t, h, "that was declared again", "0 1 * * *")
	if !after.Next.Equal(before.Next) || after.Version != before.Version || after.Release != 2 || !after.Declared || after.Edited {
		t.Errorf("declared again: got %+v, before %+v", after, before)
	}
	declare(t, h, 3, 1, daily("a", "2"))
	if got := wantSpec(t, h, "whose text has changed", "0 2 * * *"); got.Version != before.Version+1 || got.Release != 3 {
		t.Errorf("declared with another text: got %+v", got)
	}
	declare(t, h, 3, 1, daily("a", "3")) // one release of two texts: the last to start
}

// testDeclareTick: a new text with the same Spec and Zone keeps the next tick, also one that was
// missed. Another Spec or Zone counts from now.
func testDeclareTick(t *testing.T, h Harness) {
	s := queue.Schedule{Name: "a", Spec: "@every 1h", Job: newJob()}
	release := int64(0)
	change := func(when string, keeps bool, edit func(s *queue.Schedule)) {
		t.Helper()
		before := listSchedules(t, h, 1)[0]
		s.Job = newJob()
		edit(&s)
		release++
		declare(t, h, release, 1, s)
		if after := listSchedules(t, h, 1)[0]; after.Next.Equal(before.Next) != keeps {
			t.Errorf("%s: next tick is %v, before it %v; want it kept: %v", when, after.Next, before.Next, keeps)
		}
	}
	release++
	declare(t, h, release, 1, s)
	h.Rewind(t, 10*time.Minute)
	change("another payload", true, func(s *queue.Schedule) { s.Job.Payload = json.RawMessage(`1`) })
	change("another Missed, Grace and Overlap", true, func(s *queue.Schedule) {
		s.Missed, s.Grace, s.Overlap = queue.MissedAll, 24*time.Hour, true
	})
	h.Rewind(t, 3*time.Hour)
	missed := listSchedules(t, h, 1)[0].Next
	change("ticks that were missed", true, func(s *queue.Schedule) { s.Job.Payload = json.RawMessage(`2`) })
	fire(t, h, 1)
	for _, j := range wantTicks(t, h, "of ticks that were missed", "a", missed, missed.Add(time.Hour), missed.Add(2*time.Hour)) {
		if string(j.Payload) != "2" {
			t.Errorf("job of a missed tick: payload %s, want the one that was declared last, 2", j.Payload)
		}
	}
	h.Rewind(t, 10*time.Minute)
	change("another Spec", false, func(s *queue.Schedule) { s.Spec = "@every 2h" })
	h.Rewind(t, 10*time.Minute)
	change("another Zone", false, func(s *queue.Schedule) { s.Zone = "Europe/Berlin" })
	h.Rewind(t, 10*time.Minute)
	change("paused", false, func(s *queue.Schedule) { s.Paused = true })
	change("resumed", false, func(s *queue.Schedule) { s.Paused = false })
	h.Rewind(t, 10*time.Minute)
	before := listSchedules(t, h, 1)[0].Next
	setSchedules(t, h, nil, s)
	if after := listSchedules(t, h, 1)[0].Next; after.Equal(before) {
		t.Errorf("set by a person: next tick is still %v, want one from now", after)
	}
}

// testDeclareSetBack: if the next tick of an "@every" is further away than its interval, because
// the clock was set back, a program that starts counts anew. Other schedules go by the clock.
func testDeclareSetBack(t *testing.T, h Harness) {
	every := queue.Schedule{Name: "a", Spec: "@every 5m", Job: newJob()}
	declare(t, h, 1, 2, every, daily("b", "1"))
	for _, payload := range []string{"", "1"} {
		h.Rewind(t, -time.Hour)
		before := listSchedules(t, h, 2)
		if payload != "" {
			every.Job = &queue.Job{Kind: every.Job.Kind, Queue: every.Job.Queue, Payload: json.RawMessage(payload)}
		}
		declare(t, h, 1, 1, every, daily("b", "1"))
		after := listSchedules(t, h, 2)
		if sooner := before[0].Next.Sub(after[0].Next); (sooner - time.Hour).Abs() > time.Minute {
			t.Errorf("payload %q: next tick of @every is %v, before it %v; want it an hour sooner", payload, after[0].Next, before[0].Next)
		}
		if !after[1].Next.Equal(before[1].Next) {
			t.Errorf("payload %q: next tick of @daily is %v, before it %v; want it kept", payload, after[1].Next, before[1].Next)
		}
	}
}

func testDeclareEdited(t *testing.T, h Harness) {
	declare(t, h, 1, 1, daily("a", "1"))
	setSchedules(t, h, nil, daily("a", "5"))
	declare(t, h, 2, 0, daily("a", "1"))
	if got := wantSpec(t, h, "that a person has edited", "0 5 * * *"); !got.Edited || !got.Declared {
		t.Errorf("edited: got %+v", got)
	}
	declare(t, h, 3, 1, daily("a", "2"))
	if got := wantSpec(t, h, "whose text has changed", "0 2 * * *"); got.Edited {
		t.Errorf("declared with another text: got %+v", got)
	}
	pauseSchedules(t, h, nil, true, 1, "a")
	declare(t, h, 4, 1, daily("a", "3"))
	if got := wantSpec(t, h, "that a person has paused", "0 3 * * *"); !got.Paused || !got.Next.IsZero() {
		t.Errorf("paused, and declared with another text: got %+v", got)
	}
	if n, err := scheduler(h).DeleteSchedules(t.Context(), nil, "a"); n != 1 || err != nil {
		t.Fatalf("DeleteSchedules: got %d, error %v", n, err)
	}
	declare(t, h, 5, 0, daily("a", "3"))
	listSchedules(t, h, 0)
	pauseSchedules(t, h, nil, true, 0, "a")
	if n, err := scheduler(h).DeleteSchedules(t.Context(), nil, "a"); n != 0 || err != nil {
		t.Errorf("DeleteSchedules of a deleted one: got %d, error %v", n, err)
	}
	h.Rewind(t, 48*time.Hour)
	fire(t, h, 0)
	declare(t, h, 6, 1, daily("a", "4"))
	wantSpec(t, h, "that was deleted, and has another text", "0 4 * * *")
}

func testDeclareOlder(t *testing.T, h Harness) {
	declare(t, h, 10, 1, daily("a", "1"))
	declare(t, h, 12, 0, daily("a", "1"))
	for release := range int64(12) {
		declare(t, h, release+1, min(int(release/11), 1), daily("a", "2"))
		if release < 11 {
			wantSpec(t, h, "beside an older release", "0 1 * * *")
		}
	}
	declare(t, h, 20, 1, daily("a", "3"))
	declare(t, h, 12, 0, daily("a", "2")) // a process of the old release starts again during the rollout
	declare(t, h, 20, 0, daily("a", "3"))
	wantSpec(t, h, "after a rollout", "0 3 * * *")
	declare(t, h, 21, 1, daily("a", "2")) // the change is reverted
}

// testDeclareTogether: of two releases that start at once, the newer one wins.
func testDeclareTogether(t *testing.T, h Harness) {
	var starts sync.WaitGroup
	for i := range 8 {
		starts.Go(func() {
			for release := range int64(10) {
				s := []queue.Schedule{daily("a", string(rune('0'+release))), daily("b", "1"), daily("c", "1")}
				if i%2 == 1 {
					s[0], s[2] = s[2], s[0]
				}
				if _, err := runner(h).DeclareSchedules(t.Context(), nil, queue.Declaration{Schedules: s, Release: release + 1}); err != nil {
					t.Errorf("DeclareSchedules: %v", err)
				}
			}
		})
	}
	starts.Wait()
	all := listSchedules(t, h, 3)
	if all[0].Spec != "0 9 * * *" || all[0].Version > 10 || all[1].Version != 1 || all[2].Release != 10 {
		t.Errorf("declared by ten releases: got %+v", all)
	}
}

func testDeclareTx(t *testing.T, h Harness) {
	for _, commits := range []bool{false, true} {
		tx := begin(t, h)
		d := queue.Declaration{Schedules: []queue.Schedule{schedule("a")}}
		if n, err := runner(h).DeclareSchedules(t.Context(), tx, d); n != 1 || err != nil {
			t.Fatalf("DeclareSchedules in a transaction: got %d, error %v", n, err)
		}
		if commits {
			commit(t, tx)
			listSchedules(t, h, 1)
		} else {
			rollback(t, tx)
			listSchedules(t, h, 0)
		}
	}
}
