package postgres_test

import (
	"database/sql"
	"errors"
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
	t.Parallel()
	db, q, woken := listening(t)
	registrations := func() int {
		return value[int](t, db, `SELECT coalesce(max(registration), 0) FROM errand.sleepers WHERE worker = 'w'`)
	}

	unpin := pin(t, db)
	for range 10 {
		enqueue(t, q, jobs(5000)...)
		claimAndSettle(t, q, 5000)
	}
	for range 4 { // which is noticed
		sleep(t, q)
	}
	const times = 50
	before, begun := registrations(), time.Now()
	for range times {
		sleep(t, q)
		enqueue(t, q, jobs(1)...)
		await(t, woken)
		claimAndSettle(t, q, 1)
	}
	if got, most := registrations()-before, int(time.Since(begun)/(5*time.Second))+1; got > most {
		t.Errorf("registered %d times in %d sleeps and %v, want %d times at most", got, times, time.Since(begun), most)
	}
	enqueue(t, q, &queue.Job{Kind: "test", Delay: time.Hour})
	if next := sleep(t, q); next < 0 || next > 5*time.Second {
		t.Errorf("to look again after %v, want 5s at most", next)
	}

	unpin()
	exec(t, db, `VACUUM errand.jobs`)
	eventually(t, "each sleep registers", func() bool {
		sleep(t, q)
		before := registrations()
		sleep(t, q)
		return registrations() > before
	})
	// A server that has much else to do takes a millisecond for any registration, now and then.
	eventually(t, "the woken worker is not registered", func() bool {
		sleep(t, q)
		enqueue(t, q, jobs(1)...)
		await(t, woken)
		claimAndSettle(t, q, 1)
		return registrations() == 0
	})
	if next := sleep(t, q); next < 50*time.Minute {
		t.Errorf("next job due in %v, want just below an hour", next)
	}
}

// TestCommitAfterSleep: a worker that fell asleep between the statement of a job and its commit is
// not notified. It is told to look again soon, until the transaction has ended.
func TestCommitAfterSleep(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T, db *sql.DB, q *postgres.Backend) (commit func() error){
		"enqueued in a transaction": func(t *testing.T, db *sql.DB, q *postgres.Backend) func() error {
			tx := beginTx(t, db)
			if err := q.Enqueue(t.Context(), tx, jobs(1)...); err != nil {
				t.Fatal(err)
			}
			return tx.Commit
		},
		"enqueued by SQL": func(t *testing.T, db *sql.DB, _ *postgres.Backend) func() error {
			tx := beginTx(t, db)
			exec(t, tx, `SELECT errand.enqueue('default', 'test')`)
			return tx.Commit
		},
		"released in a transaction": func(t *testing.T, db *sql.DB, q *postgres.Backend) func() error {
			enqueue(t, q, jobs(1)...)
			tx := beginTx(t, db)
			lost, err := q.Settle(t.Context(), tx, queue.Outcome{Job: claim(t, q, 1)[0], Action: queue.Release})
			if err != nil || len(lost) > 0 {
				t.Fatal(lost, err)
			}
			return tx.Commit
		},
		"waits for its key": func(t *testing.T, db *sql.DB, q *postgres.Backend) func() error {
			tx := beginTx(t, db)
			exec(t, tx, `INSERT INTO errand.jobs (kind, job_key) VALUES ('test', 'k')`)
			ended := make(chan error, 1)
			go func() { ended <- q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Key: "k"}) }()
			eventually(t, "the job waits", func() bool {
				return value[int](t, db, `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
			})
			return func() error { return errors.Join(tx.Rollback(), <-ended) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, q, woken := listening(t)
			commit := begin(t, db, q)
			for range 3 {
				if next := sleep(t, q); next < 0 || next > time.Second {
					t.Fatalf("to look again after %v beside an open transaction, want a second at most", next)
				}
				if got := len(claim(t, q, 1)); got > 0 {
					t.Fatalf("claimed %d jobs before the commit", got)
				}
			}
			if err := commit(); err != nil {
				t.Fatal(err)
			}
			if got := len(claim(t, q, 1)); got != 1 {
				t.Errorf("claimed %d jobs after the commit, want 1", got)
			}
			if next := sleep(t, q); next >= 0 && next <= time.Second {
				t.Errorf("to look again after %v, and no transaction is open", next)
			}
			later := beginTx(t, db)
			if err := q.Enqueue(t.Context(), later, jobs(1)...); err != nil {
				t.Fatal(err)
			}
			if err := later.Commit(); err != nil {
				t.Fatal(err)
			}
			await(t, woken)
		})
	}
}

// TestOverlappingTransactions: beside transactions that enqueue, of which one is always open, a
// worker soon sleeps for as long as it likes: those that began after it fell asleep notify it.
func TestOverlappingTransactions(t *testing.T) {
	t.Parallel()
	db, q, woken := listening(t)
	enqueue := func(queueName string) *sql.Tx {
		tx := beginTx(t, db)
		if err := q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test", Queue: queueName}); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	commit := func(tx *sql.Tx) {
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	open := enqueue("elsewhere")
	if next := sleep(t, q); next < 0 || next > time.Second {
		t.Fatalf("to look again after %v beside an open transaction, want a second at most", next)
	}
	for range 3 {
		next := enqueue("elsewhere")
		commit(open)
		open = next
		if next := sleep(t, q); next >= 0 && next <= time.Second {
			t.Errorf("to look again after %v, though only a transaction is open that knows of the worker", next)
		}
	}
	mine := enqueue("default")
	commit(open)
	commit(mine)
	await(t, woken)
}

// TestScheduledAfterSleep: a worker that fell asleep between the statement of a scheduled job and
// its commit learns when it is due as soon as it looks again.
func TestScheduledAfterSleep(t *testing.T) {
	t.Parallel()
	db, q, _ := listening(t)
	tx := beginTx(t, db)
	if err := q.Enqueue(t.Context(), tx, &queue.Job{Kind: "test", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if next := sleep(t, q); next < 0 || next > time.Second {
			t.Fatalf("to look again after %v beside an open transaction, want a second at most", next)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if next := sleep(t, q); next < 50*time.Minute || next > time.Hour {
		t.Errorf("next job due in %v, want just below an hour", next)
	}
}

func sleep(t *testing.T, q *postgres.Backend) (next time.Duration) {
	t.Helper()
	next, err := q.Sleep(t.Context(), "w", []string{"default"})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// beginTx begins a transaction that is rolled back at the end of the test if it is still open.
func beginTx(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// TestPollersDoNotRegister: a worker that does not listen does not register, because it would not
// hear a notification.
func TestPollersDoNotRegister(t *testing.T) {
	t.Parallel()
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
