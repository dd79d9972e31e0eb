package postgres_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// TestSleepersBesideDeadRows: if a registration scans fifty thousand dead rows, workers register
// once in five seconds. They are still woken, and learn what is due. After VACUUM they
// register each time, and the registration goes when they are woken.
func TestSleepersBesideDeadRows(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	db, q, woken := listening(t)
	sleep := func() (next time.Duration) {
		t.Helper()
		next, err := q.Sleep(t.Context(), "w", []string{"default"})
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	registrations := func() int {
		return value[int](t, db, `SELECT coalesce(max(registration), 0) FROM errand.sleepers WHERE worker = 'w'`)
	}

	unpin := pin(t, db)
	for range 10 {
		enqueue(t, q, jobs(5000)...)
		claimAndSettle(t, q, 5000)
	}
	for range 4 { // which is noticed
		sleep()
	}
	const times = 50
	before, begun := registrations(), time.Now()
	for range times {
		sleep()
		enqueue(t, q, jobs(1)...)
		await(t, woken)
		claimAndSettle(t, q, 1)
	}
	if got, most := registrations()-before, int(time.Since(begun)/(5*time.Second))+1; got > most {
		t.Errorf("registered %d times in %d sleeps and %v, want %d times at most", got, times, time.Since(begun), most)
	}
	enqueue(t, q, &queue.Job{Kind: "test", Delay: time.Hour})
	if next := sleep(); next < 0 || next > 5*time.Second {
		t.Errorf("to look again after %v, want 5s at most", next)
	}

	unpin()
	exec(t, db, `VACUUM errand.jobs`)
	eventually(t, "each sleep registers", func() bool {
		sleep()
		before := registrations()
		sleep()
		return registrations() > before
	})
	enqueue(t, q, jobs(1)...)
	await(t, woken)
	eventually(t, "the woken worker is not registered", func() bool { return registrations() == 0 })
	if next := sleep(); next < 50*time.Minute {
		t.Errorf("next job due in %v, want just below an hour", next)
	}
}

// TestPollersDoNotRegister: a worker that does not listen does not register, because it would not
// hear a notification.
func TestPollersDoNotRegister(t *testing.T) {
	db, q := fresh(t, postgres.Options{})
	if _, err := q.Sleep(t.Context(), "w", []string{"default"}); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, db, `SELECT count(*) FROM errand.sleepers`); n != 0 {
		t.Errorf("%d on the list of those asleep, want 0", n)
	}
}

func claimAndSettle(t *testing.T, q *postgres.Backend, n int) {
	t.Helper()
	var outcomes []queue.Outcome
	for _, job := range claim(t, q, n) {
		outcomes = append(outcomes, queue.Outcome{Job: job})
	}
	if lost, err := q.Settle(t.Context(), nil, outcomes...); err != nil || len(lost) > 0 || len(outcomes) != n {
		t.Fatalf("of %d jobs, %d were claimed and %d lost: %v", n, len(outcomes), len(lost), err)
	}
}
