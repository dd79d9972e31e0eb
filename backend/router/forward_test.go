package router_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// inTx enqueues jobs in a transaction of the home.
func inTx(t *testing.T, db *sql.DB, q queue.Enqueuer, jobs ...*queue.Job) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	enqueue(t, q, tx, jobs...)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// keepUp runs Upkeep until the test ends.
func keepUp(t *testing.T, q *router.Queue) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Upkeep: %v", err)
		}
	})
}

// await waits until done returns true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited a minute, but never saw: %s", what)
		}
	}
}

// pending lists the pending jobs of a queue.
func pending(t *testing.T, q queue.Queue, name string) []queue.Record {
	t.Helper()
	inspector, _ := driver.As[driver.Inspector](q)
	page, _, err := inspector.Jobs(t.Context(), queue.Filter{Queue: name, Status: queue.StatusPending, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// outboxIsEmpty reports whether no job waits in the outbox or is on its way.
func outboxIsEmpty(t *testing.T, home queue.Queue) bool {
	t.Helper()
	inspector, _ := driver.As[driver.Inspector](home)
	counts, err := inspector.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Queue == router.Outbox && c.Status != queue.StatusCompleted {
			return false
		}
	}
	return true
}

// postgresTarget is a backend in a schema of its own.
func postgresTarget(t *testing.T, db *sql.DB) queue.Queue {
	t.Helper()
	o := postgres.Options{Schema: "other", Retention: forever}
	if err := postgres.Migrate(t.Context(), db, o); err != nil {
		t.Fatal(err)
	}
	q, err := postgres.New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func sqliteTarget(t *testing.T) queue.Queue {
	t.Helper()
	db, err := sqlite.Open("sqlite", filepath.Join(t.TempDir(), "jobs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := sqlite.Migrate(t.Context(), db, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestForward: a job that is enqueued in a transaction arrives in its backend as it was, if the
// transaction commits, and leaves nothing in the outbox.
func TestForward(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, db *sql.DB) queue.Queue{
		"postgres": postgresTarget,
		"sqlite":   func(t *testing.T, _ *sql.DB) queue.Queue { return sqliteTarget(t) },
		"memory":   func(*testing.T, *sql.DB) queue.Queue { return memory.New(memory.Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, postgrestest.Open(t))
			target := open(t, h.db)
			q := route(t, router.Routes{"*": h.q, "clicks": target}, router.Options{Logger: quiet})
			testForward(t, h, q, target)
		})
	}
}

func testForward(t *testing.T, h home, q *router.Queue, target queue.Queue) {
	full := queue.Job{
		Queue: "clicks", Kind: "click", Payload: []byte(`{"n": 1}`), Priority: -3, ScheduledAt: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond),
		MaxAttempts: 9, Key: "key", Group: "group", Cost: 4, Headers: map[string]string{"trace": "é", "errand-encoding": "x"},
	}
	plain, late, ordered := job("clicks", 2), job("clicks", 3), job("clicks", 4)
	late.Delay, ordered.Ordered, ordered.Group = time.Hour, true, "group"
	sent := full
	inTx(t, h.db, q, &sent, plain, job("mail", 5), late, ordered)
	rolledBack, err := h.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, rolledBack, job("clicks", 6))
	if err := rolledBack.Rollback(); err != nil {
		t.Fatal(err)
	}
	committed := pending(t, h.q, router.Outbox)
	keepUp(t, q)
	await(t, "an empty outbox", func() bool { return outboxIsEmpty(t, h.q) })
	got := pending(t, target, "clicks")
	if len(got) != 4 || len(committed) != 4 || len(pending(t, h.q, "mail")) != 1 {
		t.Fatalf("jobs in the outbox, and that have arrived: got %d and %d, want 4 each", len(committed), len(got))
	}
	created := committed[0].CreatedAt
	for _, r := range got {
		want := full
		switch string(r.Payload) {
		case "2":
			want = queue.Job{Queue: "clicks", Kind: "k", ScheduledAt: created, MaxAttempts: 5}
		case "3":
			want = queue.Job{Queue: "clicks", Kind: "k", ScheduledAt: created.Add(time.Hour), MaxAttempts: 5}
		case "4":
			want = queue.Job{Queue: "clicks", Kind: "k", ScheduledAt: created, MaxAttempts: 5, Group: "group", Ordered: true}
		}
		want.ID, want.CreatedAt, want.Payload = r.ID, created, r.Payload
		if r.CreatedAt, r.ScheduledAt = r.CreatedAt.UTC(), r.ScheduledAt.UTC(); true {
			want.CreatedAt, want.ScheduledAt = want.CreatedAt.UTC(), want.ScheduledAt.UTC()
		}
		if !reflect.DeepEqual(r.Job, want) {
			t.Errorf("a job that has arrived:\n got %+v\nwant %+v", r.Job, want)
		}
	}
	await(t, "the outbox to be swept", func() bool {
		page, _, err := h.q.Jobs(t.Context(), queue.Filter{Queue: router.Outbox})
		return err == nil && len(page) == 0
	})
}

// flaky is a target that forgets to say what it has done: each call fails now and then, half of
// them after they have taken effect.
type flaky struct {
	*memory.Queue
	mu   sync.Mutex
	rand *rand.Rand
}

func (f *flaky) draw(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rand.IntN(n)
}

func (f *flaky) Receive(ctx context.Context, transfers ...driver.Transfer) (n int, err error) {
	luck := f.draw(3)
	if luck == 0 {
		return 0, errDown
	}
	n, err = f.Queue.Receive(ctx, transfers...)
	if err == nil && luck == 1 {
		return 0, queue.ErrUnknown
	}
	return n, err
}

func (f *flaky) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	luck := f.draw(3)
	if luck == 0 {
		return nil, errDown
	}
	lost, err = f.Queue.Settle(ctx, db, outcomes...)
	if err == nil && luck == 1 {
		return nil, errDown
	}
	return lost, err
}

// TestForwardCrashes: whatever fails on the way, before or after it has taken effect, each job
// arrives once.
func TestForwardCrashes(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		const jobs = 500
		fresh := func(seed uint64) *flaky {
			return &flaky{Queue: memory.New(memory.Options{Retention: forever}), rand: rand.New(rand.NewPCG(seed, 1))}
		}
		home, target := fresh(1), fresh(2)
		q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: quiet})
		for i := range jobs {
			tx, err := home.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			enqueue(t, q, tx, job("clicks", i))
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}) }()
		}
		time.Sleep(time.Hour)
		if !outboxIsEmpty(t, home) {
			t.Error("jobs are left in the outbox after an hour")
		}
		wantNumbers(t, pending(t, target, "clicks"), jobs)
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// wantNumbers checks that the payloads of jobs are the numbers below n, each once.
func wantNumbers(t *testing.T, jobs []queue.Record, n int) {
	t.Helper()
	times := make(map[string]int, n)
	for _, r := range jobs {
		times[string(r.Payload)]++
	}
	for i := range n {
		if got := times[fmt.Sprint(i)]; got != 1 {
			t.Errorf("job %d has arrived %d times, want once", i, got)
		}
	}
}

// TestForwardOrder: jobs of an ordered group, and jobs that replace each other, arrive in the order
// of their transactions.
func TestForwardOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 100
		home := memory.New(memory.Options{Retention: forever})
		target := &flaky{Queue: memory.New(memory.Options{Retention: forever}), rand: rand.New(rand.NewPCG(3, 1))}
		q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: quiet})
		for i := range jobs {
			tx, _ := home.Begin(t.Context())
			ordered, replacing := job("clicks", i), job("clicks", i)
			ordered.Group, ordered.Ordered = "g", true
			replacing.Key, replacing.OnDuplicate, replacing.Delay = "key", queue.Replace, time.Hour
			enqueue(t, q, tx, ordered, replacing)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}) }()
		time.Sleep(3 * time.Hour)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		got := pending(t, target, "clicks") // newest first
		for _, r := range got {
			if r.Key != "" && string(r.Payload) != fmt.Sprint(jobs-1) {
				t.Errorf("of jobs that replace each other the last to arrive is %s, want %d", r.Payload, jobs-1)
			}
		}
		n := jobs
		for _, r := range got {
			if r.Ordered {
				if n--; string(r.Payload) != fmt.Sprint(n) {
					t.Fatalf("ordered job %s arrived in the place of %d", r.Payload, n)
				}
			}
		}
		if n != 0 {
			t.Errorf("%d ordered jobs have not arrived", n)
		}
	})
}

// picky is a target that refuses some jobs.
type picky struct{ *memory.Queue }

func (p *picky) Receive(ctx context.Context, transfers ...driver.Transfer) (int, error) {
	for _, x := range transfers {
		if strings.HasPrefix(string(x.Job.Payload), "1") {
			return 0, &queue.InvalidError{Field: "Payload", Problem: "too long here"}
		}
	}
	return p.Queue.Receive(ctx, transfers...)
}

// TestForwardRefused: a job that its backend refuses is dead in the outbox, and the others arrive.
func TestForwardRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, target := memory.New(memory.Options{}), &picky{memory.New(memory.Options{})}
		q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: quiet})
		tx, _ := home.Begin(t.Context())
		for i := range 30 {
			enqueue(t, q, tx, job("clicks", i))
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		dead, _, err := home.Jobs(t.Context(), queue.Filter{Queue: router.Outbox, Status: queue.StatusDead})
		if arrived := pending(t, target, "clicks"); err != nil || len(dead) != 11 || len(arrived) != 19 {
			t.Errorf("dead in the outbox, and arrived: got %d and %d, error %v; want 11 and 19", len(dead), len(arrived), err)
		}
	})
}

// TestNoReceiver: a backend that cannot take jobs from an outbox is not enqueued for in a
// transaction.
func TestNoReceiver(t *testing.T) {
	home := memory.New(memory.Options{})
	q := route(t, router.Routes{"*": home, "clicks": &bare{memory.New(memory.Options{})}}, router.Options{})
	tx, _ := home.Begin(t.Context())
	defer func() { _ = tx.Rollback() }()
	err := q.Enqueue(t.Context(), tx, job("clicks", 1))
	if _, ok := errors.AsType[*queue.InvalidError](err); !ok {
		t.Errorf("got %v, want an InvalidError", err)
	}
	long := job("clicks", 2)
	long.Headers = map[string]string{"h": strings.Repeat("x", queue.MaxHeaders-1)}
	full := route(t, router.Routes{"*": home, "clicks": memory.New(memory.Options{})}, router.Options{})
	if err := full.Enqueue(t.Context(), tx, long); err == nil || !strings.Contains(err.Error(), "Headers") {
		t.Errorf("headers that leave no room for the address: got %v", err)
	}
}
