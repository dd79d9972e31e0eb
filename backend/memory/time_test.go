package memory_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// bubble runs f with an empty queue in a bubble, in which time.Sleep costs nothing.
func bubble(t *testing.T, o memory.Options, f func(t *testing.T, q *memory.Queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, memory.New(o)) })
}

func reclaim(t *testing.T, q *memory.Queue, when string, want int) {
	t.Helper()
	if got, err := q.Reclaim(t.Context(), 10); err != nil || len(got) != want {
		t.Fatalf("Reclaim %s: got %d jobs, error %v; want %d", when, len(got), err, want)
	}
}

func TestLeaseOfHours(t *testing.T) {
	bubble(t, memory.Options{}, func(t *testing.T, q *memory.Queue) {
		enqueue(t, q, nil, job("k"))
		held := claim(t, q, 1, 1)[0] // for an hour
		time.Sleep(time.Hour - time.Nanosecond)
		reclaim(t, q, "a nanosecond before the lease's end", 0)
		if lost, _, err := q.Extend(t.Context(), 3*time.Hour, held); err != nil || len(lost) != 0 {
			t.Fatalf("Extend: lost %d, error %v", len(lost), err)
		}
		time.Sleep(3*time.Hour - time.Nanosecond)
		reclaim(t, q, "a nanosecond before the extended lease's end", 0)
		time.Sleep(time.Nanosecond)
		reclaim(t, q, "at the extended lease's end", 1)
		if again := claim(t, q, 1, 1)[0]; again.Attempt != 2 {
			t.Errorf("claimed again: got attempt %d, want 2", again.Attempt)
		}
	})
}

func TestDelayOfDays(t *testing.T) {
	bubble(t, memory.Options{}, func(t *testing.T, q *memory.Queue) {
		const day = 24 * time.Hour
		enqueue(t, q, nil, &queue.Job{Kind: "k", Delay: 2 * day}, &queue.Job{Kind: "k", ScheduledAt: time.Now().Add(day)})
		for _, left := range []int{1, 0} {
			next, err := q.Sleep(t.Context(), "w", []string{queue.DefaultQueue})
			if err != nil || next != day {
				t.Fatalf("Sleep: got next %v, error %v; want %v", next, err, day)
			}
			time.Sleep(next - time.Nanosecond)
			claim(t, q, 10, 0)
			time.Sleep(time.Nanosecond)
			claim(t, q, 10, 1)
			if counts, _ := q.Counts(t.Context()); counts[0].Status == queue.StatusPending && counts[0].Jobs != int64(left) {
				t.Errorf("Counts: got %+v, want %d pending", counts, left)
			}
		}
	})
}

func prune(t *testing.T, q *memory.Queue, when string, wantRemoved int, wantMore bool) {
	t.Helper()
	removed, more, err := q.Prune(t.Context())
	if err != nil || removed != wantRemoved || more != wantMore {
		t.Fatalf("Prune %s: got %d, more %v, error %v; want %d, %v", when, removed, more, err, wantRemoved, wantMore)
	}
}

func TestRetention(t *testing.T) {
	bubble(t, memory.Options{}, func(t *testing.T, q *memory.Queue) {
		const day = 24 * time.Hour
		enqueue(t, q, nil, job("done"), job("dead"), job("live"))
		held := claim(t, q, 2, 2)
		settle(t, q, nil, queue.Outcome{Job: held[0], Action: queue.Done})
		settle(t, q, nil, queue.Outcome{Job: held[1], Action: queue.Dead})
		time.Sleep(7*day - time.Nanosecond)
		prune(t, q, "before 7 days", 0, false)
		time.Sleep(time.Nanosecond)
		prune(t, q, "after 7 days", 1, false)
		if n, err := q.Redrive(t.Context(), nil, queue.Selection{Kind: "dead"}); n != 1 || err != nil {
			t.Fatalf("Redrive: got %d, error %v; want 1", n, err)
		}
		time.Sleep(30 * day)
		prune(t, q, "30 days after a dead job was redriven", 0, false)
		redriven := claim(t, q, 2, 2)[1]
		settle(t, q, nil, queue.Outcome{Job: redriven, Action: queue.Dead})
		time.Sleep(30*day - time.Nanosecond)
		prune(t, q, "before 30 days", 0, false)
		time.Sleep(time.Nanosecond)
		prune(t, q, "after 30 days", 1, false)
		if all, _, _ := q.Jobs(t.Context(), queue.Filter{}); len(all) != 1 || all[0].Kind != "live" {
			t.Errorf("Jobs after Prune: got %+v, want the live one", all)
		}
	})
}

func TestPruneInSlices(t *testing.T) {
	bubble(t, memory.Options{Retention: queue.Retention{Completed: time.Minute}}, func(t *testing.T, q *memory.Queue) {
		for range 2500 {
			enqueue(t, q, nil, job("k"))
		}
		for _, j := range claim(t, q, 2500, 2500) {
			settle(t, q, nil, queue.Outcome{Job: j, Action: queue.Done})
		}
		time.Sleep(time.Minute)
		prune(t, q, "the first slice", 1000, true)
		prune(t, q, "the second slice", 1000, true)
		prune(t, q, "the third slice", 500, false)
	})
}

func TestNoRetention(t *testing.T) {
	q := memory.New(memory.Options{Retention: queue.Retention{Completed: -1, Dead: -1}})
	enqueue(t, q, nil, &queue.Job{Kind: "done", Key: "a"}, job("dead"))
	held := claim(t, q, 2, 2)
	settle(t, q, nil, queue.Outcome{Job: held[0], Action: queue.Done})
	settle(t, q, nil, queue.Outcome{Job: held[1], Action: queue.Dead})
	if all, _, _ := q.Jobs(t.Context(), queue.Filter{}); len(all) != 1 || all[0].Kind != "dead" {
		t.Errorf("Jobs after one is done and one dead: got %+v, want the dead one", all)
	}
	prune(t, q, "without retention", 1, false)
	again := &queue.Job{Kind: "k", Key: "a"}
	enqueue(t, q, nil, again)
	if again.Duplicate {
		t.Errorf("Enqueue of the key of a deleted job: got Duplicate, want it written")
	}
}

// listen counts how often a worker is woken until the test ends.
func listen(t *testing.T, q *memory.Queue) (woken *int, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	woken = new(int)
	go func() {
		if err := q.Listen(ctx, "w", []string{queue.DefaultQueue}, func(s driver.Signal) {
			if s.Jobs {
				*woken++
			}
		}); err != nil {
			t.Errorf("Listen: %v", err)
		}
	}()
	synctest.Wait()
	return woken, func() {
		cancel()
		synctest.Wait()
	}
}

func TestWokenOncePerSleep(t *testing.T) {
	bubble(t, memory.Options{}, func(t *testing.T, q *memory.Queue) {
		sleep := func() {
			if _, err := q.Sleep(t.Context(), "w", []string{queue.DefaultQueue}); err != nil {
				t.Fatalf("Sleep: %v", err)
			}
		}
		sleep()
		enqueue(t, q, nil, job("before Listen"))
		woken, stop := listen(t, q)
		want := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if *woken != want {
				t.Fatalf("woken %s: got %d times, want %d", when, *woken, want)
			}
		}
		want("by what was enqueued between Sleep and Listen", 1)
		enqueue(t, q, nil, job("k"), job("k"))
		want("while awake", 1)
		sleep()
		enqueue(t, q, nil, &queue.Job{Kind: "k", Queue: "other"})
		want("by another queue", 1)
		enqueue(t, q, nil, job("k"), job("k"))
		want("after Sleep", 2)

		again, stopAgain := listen(t, q) // a worker that starts anew before it has stopped
		stop()
		sleep()
		enqueue(t, q, nil, job("k"))
		synctest.Wait()
		if *again != 1 {
			t.Errorf("woken after the worker's former self stopped: got %d times, want 1", *again)
		}
		stopAgain()
	})
}

// TestLeasesAreMonotonic: leases are compared by the monotonic clock, which no change of the
// machine's clock and no suspension moves.
func TestLeasesAreMonotonic(t *testing.T) {
	q := memory.New(memory.Options{})
	enqueue(t, q, nil, job("k"))
	held := claim(t, q, 1, 1)[0]
	for _, when := range []string{"claimed", "extended"} {
		if end := q.LeaseEnd(held.ID); !strings.Contains(end.String(), " m=") {
			t.Errorf("%s: the end of the lease, %v, has no monotonic reading", when, end)
		}
		if rec, _, _ := q.Job(t.Context(), held.ID); strings.Contains(rec.LeaseEnds.String(), " m=") {
			t.Errorf("%s: the end of the lease that is shown, %v, has one", when, rec.LeaseEnds)
		}
		if _, _, err := q.Extend(t.Context(), time.Hour, held); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSchedulesAfterClockGoesBack: an "@every" is not silent until the clock comes to its next tick
// again.
func TestSchedulesAfterClockGoesBack(t *testing.T) {
	bubble(t, memory.Options{}, func(t *testing.T, q *memory.Queue) {
		if err := q.SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@every 5s", Job: job("k")}); err != nil {
			t.Fatal(err)
		}
		q.Rewind(-time.Hour)
		if _, next, err := q.FireSchedules(t.Context()); err != nil || next != 5*time.Second {
			t.Errorf("next tick in %v, %v; want in 5 s", next, err)
		}
	})
}
