package sqlite_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// dozer is a worker that listens until the test ends.
func dozer(t *testing.T, q *sqlite.Backend, queues ...string) (asleep func(), woken chan time.Time) {
	t.Helper()
	woken = make(chan time.Time, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- q.Listen(ctx, "dozer", queues, func(s driver.Signal) {
			if s.Jobs {
				woken <- time.Now()
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-woken // when it has begun to listen
	return func() {
		t.Helper()
		if _, err := q.Sleep(t.Context(), "dozer", queues); err != nil {
			t.Fatal(err)
		}
	}, woken
}

// TestWakeWithinProcess: what this process enqueues wakes its workers at once, and after the commit
// of a caller's transaction within 5 ms. After any other commit a worker is woken when it next
// looks into the file, within 40 ms. The clock stands still while anything computes, so these are
// the times for which errand itself waits.
func TestWakeWithinProcess(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		synctest.Test(t, func(t *testing.T) {
			db, q := fresh(t, driver, sqlite.Options{})
			asleep, woken := dozer(t, q, queue.DefaultQueue)
			want := func(what string, least, most time.Duration, do func()) {
				t.Helper()
				for range 9 {
					asleep()
					from := time.Now()
					do()
					if got := (<-woken).Sub(from); got < least || got > most {
						t.Errorf("from %s to wake-up: got %v, want from %v to %v", what, got, least, most)
					}
				}
			}
			want("Enqueue", 0, 0, func() { enqueue(t, q, jobs(1)...) })
			want("Enqueue in a transaction", 0, 5*time.Millisecond, func() {
				tx := begin(t, db)
				if err := q.Enqueue(t.Context(), tx, jobs(1)...); err != nil {
					t.Fatal(err)
				}
				commit(t, tx)
			})
			want("a statement that is not errand's", time.Microsecond, 40*time.Millisecond, func() {
				execute(t, db, `INSERT INTO errand_jobs (kind) VALUES ('test')`)
			})
		})
	})
}

// TestWakesOnlyItsQueues: if this process enqueues or releases a job of another queue, or in tables
// with another prefix, that wakes no sleeper, nor does a job that has ended. If another process
// does so, it may.
func TestWakesOnlyItsQueues(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{})
	o := sqlite.Options{Prefix: "other_"}
	migrate(t, db, o)
	other := backend(t, db, o)
	asleep, woken := dozer(t, q, queue.DefaultQueue)
	enqueue(t, q, jobs(2)...)
	held := claim(t, q, 2)
	asleep()
	enqueue(t, q, &queue.Job{Kind: "test", Queue: "elsewhere"})
	enqueue(t, other, jobs(1)...)
	settle(t, q, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1], Action: queue.Dead})
	req := request(1)
	req.Queues = []string{"elsewhere"}
	given, err := q.Claim(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, q, queue.Outcome{Job: given[0], Action: queue.Release})
	select {
	case <-woken:
		t.Error("woken by a job of another queue")
	case <-time.After(100 * time.Millisecond): // two looks
	}
	enqueue(t, q, jobs(1)...)
	<-woken
}

// TestWakeIsOncePerSleep: who is awake is not woken again.
func TestWakeIsOncePerSleep(t *testing.T) {
	_, q := fresh(t, drivers[0], sqlite.Options{})
	asleep, woken := dozer(t, q, queue.DefaultQueue)
	asleep()
	for range 5 {
		enqueue(t, q, jobs(1)...)
	}
	<-woken
	select {
	case <-woken:
		t.Error("woken twice for one sleep")
	case <-time.After(100 * time.Millisecond):
	}
}
