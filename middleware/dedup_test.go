package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// keyed are jobs of one key, as if the first had ended before the second was enqueued.
func keyed(n int, key string) []*queue.Job {
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = &queue.Job{ID: int64(i + 1), Kind: "k", Key: key}
	}
	return jobs
}

// counting is a handler that counts its runs and returns what err says of each.
func counting(runs *int, err func(run int) error) queue.Handler {
	return queue.HandlerFunc(func(context.Context, *queue.Job) error {
		*runs++
		if err == nil {
			return nil
		}
		return err(*runs)
	})
}

// TestDedupWindow: one run for each key and window.
func TestDedupWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := middleware.Dedup(&middleware.MemoryDedup{}, time.Hour, nil)(counting(&runs, nil))
		run := func(want int, jobs ...*queue.Job) {
			t.Helper()
			for _, job := range jobs {
				if err := h.HandleJob(t.Context(), job); err != nil {
					t.Fatal(err)
				}
			}
			if runs != want {
				t.Errorf("runs: got %d, want %d", runs, want)
			}
		}
		run(1, keyed(3, "a")...)
		run(2, keyed(1, "b")...)
		run(3, &queue.Job{Kind: "other", Key: "a"}) // keys are a kind's own
		run(5, keyed(2, "")...)                     // no key, no memory
		time.Sleep(time.Hour - 1)
		run(5, keyed(1, "a")...)
		time.Sleep(time.Nanosecond)
		run(6, keyed(2, "a")...)
	})
}

// TestDedupFailure: what failed, in whichever way, is not remembered.
func TestDedupFailure(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func() error
	}{
		{"an error", func() error { return errors.New("declined") }},
		{"a snooze", func() error { return queue.Snooze(time.Second) }},
		{"a panic", func() error { panic("bug") }},
		{"a Goexit", func() error { runtime.Goexit(); return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			runs := 0
			h := middleware.Dedup(&middleware.MemoryDedup{}, time.Hour, nil)(counting(&runs, func(run int) error {
				if run == 1 {
					return c.fail()
				}
				return nil
			}))
			for _, job := range keyed(3, "a") {
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_ = h.HandleJob(t.Context(), job)
				}()
				<-done
			}
			if runs != 2 {
				t.Errorf("runs: got %d, want 2", runs)
			}
		})
	}
}

// TestDedupOwnKey: the default key tells a kind from a key, whatever they contain.
func TestDedupOwnKey(t *testing.T) {
	runs := 0
	h := middleware.Dedup(&middleware.MemoryDedup{}, time.Hour, nil)(counting(&runs, nil))
	for _, job := range []*queue.Job{
		{Kind: "mail", Key: "welcome 42"}, {Kind: "mail welcome", Key: "42"}, {Kind: "mail", Key: "welcome\n42"}, {Kind: "mail", Key: "welcome 42"},
	} {
		if err := h.HandleJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	if runs != 3 {
		t.Errorf("runs: got %d, want 3", runs)
	}
}

// TestDedupTogether: of jobs that run at the same time one has the effect. The others come back
// when it is known what became of it.
func TestDedupTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := middleware.Dedup(&middleware.MemoryDedup{}, time.Hour, nil)(counting(&runs, func(run int) error {
			time.Sleep(time.Minute)
			if run == 1 {
				return errors.New("declined")
			}
			return nil
		}))
		jobs := keyed(4, "a")
		run := func(job *queue.Job, want queue.OutcomeAction) {
			t.Helper()
			start := time.Now()
			err := h.HandleJob(t.Context(), job)
			if action, _ := queue.ActionOf(err); action != want {
				t.Errorf("got %v, want %v", err, want)
			}
			if want == queue.Release && time.Since(start) != 0 {
				t.Errorf("it took a slot for %v, want none", time.Since(start))
			}
		}
		for range 2 { // the first fails, the second does not
			go func() { _ = h.HandleJob(t.Context(), jobs[0]) }()
			synctest.Wait()
			run(jobs[1], queue.Release)
			run(jobs[2], queue.Release)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		run(jobs[3], queue.Done)
		if runs != 2 {
			t.Errorf("runs: got %d, want 2", runs)
		}
	})
}

// TestMemoryDedupTakesNoSlots: jobs of a key that is slow, and fails, leave a worker's slots to
// others.
func TestMemoryDedupTakesNoSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		for range 50 {
			if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "other"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		slow := middleware.Dedup(&middleware.MemoryDedup{}, time.Hour, func(job *queue.Job) string { return job.Kind })
		w := engine.Worker{Backend: q, Concurrency: 4, Logger: quiet, Handler: slow(queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			if job.Kind == "other" {
				cancel()
				return nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
			return errors.New("declined")
		}))}
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("the job of another key ran after %v, want at once, and the end of the slow one", took)
		}
	})
}

// TestMemoryDedupInTx: it refuses to remember what may still be rolled back, and what the handler
// would do does not happen.
func TestMemoryDedupInTx(t *testing.T) {
	b := openBank(t)
	b.enqueue(1)
	h := queue.Chain(handler(handle), middleware.Tx(b.db, b.q, middleware.TxOptions{}),
		middleware.Dedup(&middleware.MemoryDedup{}, time.Hour, func(*queue.Job) string { return "the key" }))
	err := h.HandleJob(t.Context(), b.claimOne())
	if err == nil || !strings.Contains(err.Error(), "outside of Tx") {
		t.Errorf("got %v, want an error that says where it belongs", err)
	}
	b.want(0, queue.StatusRunning, 1)
}

// TestMemoryDedupForgets: keys whose window is over do not pile up.
func TestMemoryDedupForgets(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		store := &middleware.MemoryDedup{}
		before := heap()
		for i := range 200_000 {
			if _, err := store.Once(t.Context(), fmt.Sprint(i), time.Millisecond, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if grown := heap() - before; grown > 2<<20 {
			t.Errorf("the heap has grown by %d bytes for keys that are over, want at most 2 MiB", grown)
		}
		runtime.KeepAlive(store)
	})
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// sqlDedup is a chain in which the effect and its key are one transaction.
func (b bank) sqlDedup(store middleware.SQLDedup, window time.Duration, fn func(ctx context.Context, tx *sql.Tx, job *queue.Job) error) queue.Handler {
	return queue.Chain(handler(fn),
		middleware.Tx(b.db, b.q, middleware.TxOptions{}),
		middleware.Dedup(store, window, func(*queue.Job) string { return "the key" }))
}

// TestSQLDedup: the key is kept with the effect, and goes with it.
func TestSQLDedup(t *testing.T) {
	b := openBank(t)
	b.enqueue(4)
	fail := true
	h := b.sqlDedup(middleware.SQLDedup{}, time.Hour, func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		if err := handle(ctx, tx, job); err != nil || fail {
			return errors.Join(err, errors.New("declined"))
		}
		return nil
	})
	if err := h.HandleJob(t.Context(), b.claimOne()); err == nil || errors.Is(err, queue.ErrSettled) {
		t.Errorf("the failing handler: got %v", err)
	}
	fail = false
	for range 2 {
		if err := h.HandleJob(t.Context(), b.claimOne()); !errors.Is(err, queue.ErrSettled) {
			t.Errorf("got %v, want ErrSettled", err)
		}
	}
	b.want(1, queue.StatusCompleted, 2) // the second is done without an effect
	b.exec(`UPDATE errand.dedup SET until = now()`)
	if err := h.HandleJob(t.Context(), b.claimOne()); !errors.Is(err, queue.ErrSettled) {
		t.Errorf("after the window: got %v, want ErrSettled", err)
	}
	b.want(2, queue.StatusCompleted, 3)
}

// TestSQLDedupTogether: of many transactions one has the effect.
func TestSQLDedupTogether(t *testing.T) {
	extent.Long(t)
	const jobs = 20
	b := openBank(t)
	b.enqueue(jobs)
	b.exec(`CREATE SCHEMA shop`)
	store := middleware.SQLDedup{Table: "shop.seen"}
	b.exec(store.Schema())
	b.exec(store.Schema()) // as often as one likes
	h := b.sqlDedup(store, time.Hour, handle)
	var all sync.WaitGroup
	for range jobs {
		job := b.claimOne()
		all.Go(func() {
			if err := h.HandleJob(t.Context(), job); !errors.Is(err, queue.ErrSettled) {
				t.Errorf("got %v, want ErrSettled", err)
			}
		})
	}
	all.Wait()
	b.want(1, queue.StatusCompleted, jobs)
	if n := b.count(`SELECT count(*) FROM shop.seen`); n != 1 {
		t.Errorf("keys: got %d, want 1", n)
	}
}

// TestSQLDedupSweeps: keys that are long over go, those that are not stay.
func TestSQLDedupSweeps(t *testing.T) {
	b := openBank(t)
	b.enqueue(4)
	b.exec(`INSERT INTO errand.dedup SELECT 'old ' || i, now() - interval '1 hour' FROM generate_series(1, 9) AS i`)
	b.exec(`INSERT INTO errand.dedup VALUES ('just over', now()), ('lasting', now() + interval '1 hour')`)
	h := b.sqlDedup(middleware.SQLDedup{}, time.Hour, handle)
	for _, want := range []int{9, 6, 3, 3} { // those two and the key, and what is left of the old
		if err := h.HandleJob(t.Context(), b.claimOne()); !errors.Is(err, queue.ErrSettled) {
			t.Fatalf("got %v, want ErrSettled", err)
		}
		if got := b.count(`SELECT count(*) FROM errand.dedup`); got != want {
			t.Errorf("keys: got %d, want %d", got, want)
		}
	}
}

// TestSQLDedupKeyLongOver: a statement that sweeps a key also writes it.
func TestSQLDedupKeyLongOver(t *testing.T) {
	b := openBank(t)
	b.enqueue(2)
	b.exec(`INSERT INTO errand.dedup VALUES ('the key', now() - interval '1 hour')`)
	h := b.sqlDedup(middleware.SQLDedup{}, time.Hour, handle)
	for range 2 {
		if err := h.HandleJob(t.Context(), b.claimOne()); !errors.Is(err, queue.ErrSettled) {
			t.Errorf("got %v, want ErrSettled", err)
		}
	}
	b.want(1, queue.StatusCompleted, 2)
}

// TestDedupMisuse: what cannot work is said, and is not the job's fault.
func TestDedupMisuse(t *testing.T) {
	wantPanic(t, "store is nil", func() { middleware.Dedup(nil, time.Hour, nil) })
	wantPanic(t, "window 0s", func() { middleware.Dedup(&middleware.MemoryDedup{}, 0, nil) })
	wantPanic(t, "SQLDedup.Table", func() { middleware.SQLDedup{Table: `x"; DROP TABLE y`}.Schema() })
	h := middleware.Dedup(middleware.SQLDedup{}, time.Hour, nil)(queue.HandlerFunc(func(context.Context, *queue.Job) error {
		t.Error("the handler has run")
		return nil
	}))
	err := h.HandleJob(t.Context(), keyed(1, "a")[0])
	if err == nil || !strings.Contains(err.Error(), "needs Tx outside") {
		t.Errorf("SQLDedup without Tx: got %v", err)
	}
}
