package postgres_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/backend/postgres/pqlisten"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// listening returns a queue whose Listen is running, and signals woken.
func listening(t *testing.T) (*sql.DB, *postgres.Backend, chan struct{}) {
	t.Helper()
	return listeningIn(t, ways[0])
}

func listeningIn(t *testing.T, w way) (*sql.DB, *postgres.Backend, chan struct{}) {
	t.Helper()
	db, listen := w.open(t, postgrestest.DSN(t))
	q := backend(t, db, postgres.Options{Listen: listen})
	woken := make(chan struct{}, 1)
	listenTo(t, q, "w", "default", woken)
	return db, q, woken
}

// listenTo makes the worker listen until the test ends.
func listenTo(t *testing.T, q *postgres.Backend, worker, queueName string, woken chan struct{}) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- q.Listen(ctx, worker, []string{queueName}, func(s driver.Signal) {
			if !s.Jobs {
				return
			}
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
}

// TestWakesBesideSlowDeregistration: a notification wakes its workers although the removal of other
// workers' registrations, which were woken before, waits for a lock.
func TestWakesBesideSlowDeregistration(t *testing.T) {
	t.Parallel()
	for _, w := range firstWays(2) {
		t.Run(w.name, func(t *testing.T) {
			db, q, woken := listeningIn(t, w)
			other := make(chan struct{}, 1)
			listenTo(t, q, "v", "other", other)
			sleep(t, q)
			if _, err := q.Sleep(t.Context(), "v", []string{"other"}); err != nil {
				t.Fatal(err)
			}
			lock := beginTx(t, db)
			exec(t, lock, `LOCK TABLE errand.sleepers IN SHARE MODE`) // as CREATE INDEX does
			enqueue(t, q, &queue.Job{Kind: "test"})
			await(t, woken)
			const waiting = `SELECT coalesce(max(pid), 0) FROM pg_locks
				WHERE NOT granted AND relation = 'errand.sleepers'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
			var pid int
			eventually(t, "the removal waits", func() bool {
				pid = value[int](t, db, waiting)
				return pid != 0
			})
			enqueue(t, q, &queue.Job{Kind: "test", Queue: "other"})
			await(t, other)
			if got := value[int](t, db, waiting); got != pid {
				t.Errorf("the worker was woken when session %d no longer waited, but %d", pid, got)
			}
			if err := lock.Rollback(); err != nil {
				t.Error(err)
			}
			eventually(t, "both are deregistered", func() bool {
				return value[int](t, db, `SELECT count(*) FROM errand.sleepers`) == 0
			})
		})
	}
}

// TestDeregistersAsleepAgain: a worker that has fallen asleep again since it was woken stays
// registered, whatever is removed together with its earlier registration.
func TestDeregistersAsleepAgain(t *testing.T) {
	t.Parallel()
	_, q, woken := listening(t)
	other := make(chan struct{}, 1)
	listenTo(t, q, "v", "other", other)
	for range 20 {
		sleep(t, q)
		if _, err := q.Sleep(t.Context(), "v", []string{"other"}); err != nil {
			t.Fatal(err)
		}
		enqueue(t, q, &queue.Job{Kind: "test"})
		enqueue(t, q, &queue.Job{Kind: "test", Queue: "other"})
		await(t, woken)
		sleep(t, q)
		await(t, other)
		enqueue(t, q, &queue.Job{Kind: "test"})
		await(t, woken)
	}
}

func await(t *testing.T, woken chan struct{}) {
	t.Helper()
	select {
	case <-woken:
	case <-time.After(20 * time.Second):
		t.Fatal("not woken")
	}
}

// TestListenReconnects: a worker is woken when its listening connection is back after a cut, and by
// notifications after that.
func TestListenReconnects(t *testing.T) {
	t.Parallel()
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

// TestListenCannotConnect: pqlisten has a DSN of its own, which may cease to work while the pool
// does. CheckListen then says why, until the connection is back.
func TestListenCannotConnect(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	db, _ := ways[1].open(t, dsn)
	moved, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	moved.Path = "/errand_has_moved"
	var isBack atomic.Bool
	q := backend(t, db, postgres.Options{Listen: func(ctx context.Context, db *sql.DB, channel string, ready func(), notify func(string)) error {
		if isBack.Load() {
			return pqlisten.New(dsn)(ctx, db, channel, ready, notify)
		}
		return pqlisten.New(moved.String())(ctx, db, channel, ready, notify)
	}})
	ctx, stop := context.WithCancel(t.Context())
	ended, woken := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		ended <- q.Listen(ctx, "w", []string{"default"}, func(s driver.Signal) {
			if s.Jobs {
				woken <- struct{}{}
			}
		})
	}()
	eventually(t, "CheckListen says why", func() bool {
		err := q.CheckListen("w")
		return err != nil && strings.Contains(err.Error(), `"errand_has_moved" does not exist`)
	})
	isBack.Store(true)
	await(t, woken)
	if err := q.CheckListen("w"); err != nil {
		t.Errorf("CheckListen once it listens: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNotifiesOnlySleepers: Enqueue does not notify while the workers of the queue are awake,
// because NOTIFY takes a lock that all commits share.
func TestNotifiesOnlySleepers(t *testing.T) {
	t.Parallel()
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
	settle(t, q, queue.Outcome{Job: held[1], Action: queue.Dead}, queue.Outcome{Job: held[2]})
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

// TestCrashedSleepersForgotten: a worker that crashed while it slept causes notifications for a
// minute at most. Prune removes its registration, without any worker that listens.
func TestCrashedSleepersForgotten(t *testing.T) {
	t.Parallel()
	db, q, woken := listening(t) // and would be woken although it is awake
	exec(t, db, `INSERT INTO errand.sleepers VALUES ('default', 'crashed', 1, now() - interval '61 seconds')`)
	enqueue(t, q, jobs(1)...)
	enqueue(t, q, jobs(4)...)
	enqueue(t, q, &queue.Job{Kind: "test", Key: "key"})
	held := claim(t, q, 6)
	settle(t, q, queue.Outcome{Job: held[0], Action: queue.Dead}, queue.Outcome{Job: held[1], Action: queue.Retry}, queue.Outcome{Job: held[2], Action: queue.Release})
	if _, err := q.Redrive(t.Context(), nil, queue.Selection{Queue: "default"}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `UPDATE errand.jobs SET locked_at = now() - interval '1 hour', locked_until = now() - interval '30 minutes' WHERE status = 'running'`)
	if _, err := q.Reclaim(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
		t.Error("notified for a registration that is over a minute old")
	case <-time.After(100 * time.Millisecond):
	}
	exec(t, db, `INSERT INTO errand.sleepers VALUES ('default', 'alive', 1, now() - interval '50 seconds')`)
	enqueue(t, q, jobs(1)...)
	await(t, woken)
	if _, _, err := q.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := value[string](t, db, `SELECT string_agg(worker, ' ') FROM errand.sleepers`); got != "alive" {
		t.Errorf("on the list after Prune: got %q, want alive", got)
	}
}

// TestStoppedWorkerIsOffTheList: a stopped worker is not registered, whether it was asleep or not.
func TestStoppedWorkerIsOffTheList(t *testing.T) {
	t.Parallel()
	for _, w := range ways[:2] {
		t.Run(w.name, func(t *testing.T) {
			db, listen := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{Listen: listen})
			asleep := func() int { return value[int](t, db, `SELECT count(*) FROM errand.sleepers`) }
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			worker := engine.Worker{Backend: q, Queues: []string{"a", "default"}, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })}
			go func() { ended <- worker.Run(ctx) }()
			eventually(t, "the worker is asleep", func() bool { return asleep() == 2 })
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if got := asleep(); got != 0 {
				t.Errorf("%d on the list of those asleep after a graceful stop, want 0", got)
			}
		})
	}
}

// TestListenersShareAConnection: workers of one Backend listen on one connection. Each is woken for
// its own queues, and the others still are after the first has stopped.
func TestListenersShareAConnection(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, w := range ways[:2] {
		t.Run(w.name, func(t *testing.T) { testListenersShare(t, w) })
	}
}

func testListenersShare(t *testing.T, w way) {
	db, listen := w.open(t, postgrestest.DSN(t))
	q := backend(t, db, postgres.Options{Listen: listen})
	type ear struct {
		name, queue string
		woken       chan struct{}
		stop        context.CancelFunc
		ended       chan error
	}
	var ears []*ear
	for i, name := range []string{"a", "b", "b"} {
		e := &ear{fmt.Sprint("w", i), name, make(chan struct{}, 10), nil, make(chan error, 1)}
		ctx, stop := context.WithCancel(t.Context())
		e.stop = stop
		go func() {
			e.ended <- q.Listen(ctx, e.name, []string{e.queue}, func(s driver.Signal) {
				if s.Jobs {
					e.woken <- struct{}{}
				}
			})
		}()
		await(t, e.woken)
		ears = append(ears, e)
	}
	connections := func() int {
		return value[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	}
	check := func(ears []*ear) {
		t.Helper()
		for _, name := range []string{"a", "b"} {
			for _, e := range ears {
				if _, err := q.Sleep(t.Context(), e.name, []string{e.queue}); err != nil {
					t.Fatal(err)
				}
			}
			enqueue(t, q, &queue.Job{Kind: "test", Queue: name})
			for _, e := range ears {
				if e.queue == name {
					await(t, e.woken)
				}
			}
			eventually(t, "the woken workers are off the list, and no others", func() bool {
				return value[int](t, db, `SELECT count(*) FROM errand.sleepers WHERE queue = $1`, name) == 0
			})
		}
		for _, e := range ears {
			if len(e.woken) > 0 {
				t.Errorf("%s was woken once more, for another's queue", e.name)
			}
		}
		if got := connections(); got != 1 {
			t.Errorf("%d connections listen, want 1 for all", got)
		}
	}
	check(ears)
	for i, e := range ears {
		e.stop()
		if err := <-e.ended; err != nil {
			t.Fatal(err)
		}
		if left := ears[i+1:]; len(left) > 0 {
			check(left)
		}
	}
	eventually(t, "nobody listens", func() bool { return connections() == 0 })
}

// TestListenUnsupported: a Listen that cannot work returns an error instead of trying for ever.
func TestListenUnsupported(t *testing.T) {
	t.Parallel()
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
		if err := q.Listen(t.Context(), "w", []string{"default"}, func(driver.Signal) {}); err == nil {
			t.Errorf("%s: Listen returns no error", name)
		}
	}
}

// deafConn is a connection whose server has fallen silent, of a driver that goes on reading when
// its context ends, as lib/pq does.
type deafConn struct {
	sqldriver.Conn
	let chan struct{}
}

func (c deafConn) Connect(context.Context) (sqldriver.Conn, error) { return c, nil }
func (deafConn) Driver() sqldriver.Driver                          { return nil }
func (deafConn) Close() error                                      { return nil }
func (c deafConn) ExecContext(context.Context, string, []sqldriver.NamedValue) (sqldriver.Result, error) {
	<-c.let
	return nil, errors.New("let go")
}

// TestListenEndsBesideSilence: Listen returns five seconds after its context has ended, although
// the server does not answer, then or when a notification came.
func TestListenEndsBesideSilence(t *testing.T) {
	for _, notified := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			silent := deafConn{let: make(chan struct{})}
			db := sql.OpenDB(silent)
			defer db.Close()
			defer synctest.Wait()
			defer close(silent.let)
			q := backend(t, db, postgres.Options{
				Listen: func(ctx context.Context, _ *sql.DB, _ string, ready func(), notify func(string)) error {
					ready()
					if notified {
						notify("default")
					}
					<-ctx.Done()
					return ctx.Err()
				},
			})
			q.TrustDriver()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			if err := q.Listen(ctx, "w", []string{"default"}, func(driver.Signal) {}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun) - time.Second; took > 5*time.Second {
				t.Errorf("Listen ended %v after its context, want at most 5s", took)
			}
		})
	}
}
