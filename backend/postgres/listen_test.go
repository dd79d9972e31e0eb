package postgres_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// listening is a queue whose Listen is under way, and signals woken.
func listening(t *testing.T) (*sql.DB, *postgres.Backend, chan struct{}) {
	t.Helper()
	return listeningIn(t, ways[0])
}

func listeningIn(t *testing.T, w way) (*sql.DB, *postgres.Backend, chan struct{}) {
	t.Helper()
	db, listen := w.open(t, postgrestest.DSN(t))
	q := backend(t, db, postgres.Options{Listen: listen})
	woken := make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- q.Listen(ctx, "w", []string{"default"}, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Listen: %v", err)
		}
	})
	await(t, woken) // it says so when it begins
	return db, q, woken
}

func await(t *testing.T, woken chan struct{}) {
	t.Helper()
	select {
	case <-woken:
	case <-time.After(20 * time.Second):
		t.Fatal("not woken")
	}
}

// TestListenReconnects: the listening connection is cut, and wakes the worker
// when it is back, and by notifications after that.
func TestListenReconnects(t *testing.T) {
	for _, w := range ways[:2] {
		t.Run(w.name, func(t *testing.T) {
			db, q, woken := listeningIn(t, w)
			exec(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
			await(t, woken)
			if _, err := q.Sleep(t.Context(), "w", []string{"default"}); err != nil {
				t.Fatal(err)
			}
			enqueue(t, q, jobs(1)...)
			await(t, woken)
		})
	}
}

// TestNotifiesOnlySleepers: NOTIFY takes a lock that all commits share, so it is
// left out while the workers of the queue are awake.
func TestNotifiesOnlySleepers(t *testing.T) {
	db, q, woken := listening(t)
	sleep := func() {
		if _, err := q.Sleep(t.Context(), "w", []string{"default"}); err != nil {
			t.Fatal(err)
		}
	}
	asleep := func() int { return value[int](t, db, `SELECT count(*) FROM errand.sleepers`) }

	enqueue(t, q, jobs(3)...) // nobody sleeps
	held := claim(t, q, 3)
	enqueue(t, q, &queue.Job{Queue: "other", Kind: "test"})
	sleep()
	enqueue(t, q, &queue.Job{Queue: "other", Kind: "test"}) // nobody sleeps in this queue
	exec(t, db, `SELECT pg_notify('errand', 'no such queue')`)
	settle(t, q, queue.Outcome{Job: held[0]})
	settle(t, q, queue.Outcome{Job: held[1], Verb: queue.Dead}, queue.Outcome{Job: held[2]})
	select {
	case <-woken:
		t.Error("woken, but nothing has become due in its queue since it fell asleep")
	case <-time.After(100 * time.Millisecond):
	}
	enqueue(t, q, jobs(1)...)
	await(t, woken)
	eventually(t, "the woken worker is off the list", func() bool { return asleep() == 0 })
	sleep()
	if got := asleep(); got != 1 {
		t.Errorf("%d asleep after another Sleep, want 1", got)
	}
}

// TestCrashedSleepersForgotten: a worker that died in its sleep does not make
// every Enqueue notify for ever.
func TestCrashedSleepersForgotten(t *testing.T) {
	db, q, woken := listening(t)
	exec(t, db, `INSERT INTO errand.sleepers VALUES ('other', 'crashed', 1, now() - interval '2 minutes')`)
	if _, err := q.Sleep(t.Context(), "w", []string{"default"}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, jobs(1)...)
	await(t, woken)
	eventually(t, "the list is empty", func() bool { return value[int](t, db, `SELECT count(*) FROM errand.sleepers`) == 0 })
}

// TestListenUnsupported: what cannot listen says so, instead of trying for ever.
func TestListenUnsupported(t *testing.T) {
	dsn := postgrestest.DSN(t)
	pq, _ := ways[1].open(t, dsn)
	one, _ := ways[0].open(t, dsn)
	one.SetMaxOpenConns(1)
	for name, c := range map[string]struct {
		db     *sql.DB
		listen postgres.Listen
	}{
		"no Listen":      {pq, nil},
		"another driver": {pq, pgxlisten.Listen},
		"one connection": {one, pgxlisten.Listen},
	} {
		q := backend(t, c.db, postgres.Options{Listen: c.listen})
		if err := q.Listen(t.Context(), "w", []string{"default"}, func() {}); err == nil {
			t.Errorf("%s: Listen returns no error", name)
		}
	}
}
