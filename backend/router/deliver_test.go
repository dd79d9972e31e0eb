package router_test

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// commit enqueues jobs in a transaction of a home in memory.
func commit(t *testing.T, home *memory.Queue, q queue.Enqueuer, jobs ...*queue.Job) {
	t.Helper()
	tx, err := home.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, tx, jobs...)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// forwardFor runs Upkeep for d.
func forwardFor(t *testing.T, q *router.Queue, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}); err != nil {
		t.Error(err)
	}
}

// slow is a backend behind a network that carries two megabytes a second.
type slow struct{ *memory.Queue }

func (s *slow) Receive(ctx context.Context, transfers ...driver.Transfer) (int, error) {
	bytes := 0
	for _, x := range transfers {
		bytes += len(x.Job.Payload)
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(time.Duration(bytes) * time.Second / (2 << 20)):
	}
	return s.Queue.Receive(ctx, transfers...)
}

// TestForwardSlow: jobs of a megabyte arrive over a slow network, although all that a worker sends
// at once would take longer than a call may.
func TestForwardSlow(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		const jobs = 40
		home, target := memory.New(memory.Options{}), &slow{memory.New(memory.Options{})}
		q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: quiet})
		for i := range jobs {
			large := job("clicks", i)
			large.Payload = fmt.Appendf(nil, `%q`, strings.Repeat("x", 1<<20-10))
			commit(t, home, q, large)
		}
		forwardFor(t, q, time.Minute)
		if n := len(pending(t, target, "clicks")); n != jobs {
			t.Errorf("jobs that have arrived in a minute: got %d, want %d", n, jobs)
		}
	})
}

// TestForwardOlder: a program with older routes sends a job to the backend that the newer one
// meant, or leaves it in the outbox if it does not have that backend.
func TestForwardOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, one, two := memory.New(memory.Options{}), memory.New(memory.Options{}), memory.New(memory.Options{})
		older := route(t, router.Routes{"*": home, "clicks": one}, router.Options{Logger: quiet})
		newer := route(t, router.Routes{"*": home, "clicks": one, "views": one, "mails": two},
			router.Options{Logger: quiet, Order: []queue.Queue{home, one, two}})
		commit(t, home, newer, job("views", 1), job("mails", 2))
		forwardFor(t, older, time.Minute)
		if n := len(pending(t, one, "views")); n != 1 {
			t.Errorf("jobs in the backend that both have: got %d, want 1", n)
		}
		if n, left := len(pending(t, home, "mails")), len(pending(t, home, router.Outbox)); n != 0 || left != 1 {
			t.Errorf("jobs for a backend that it does not have: %d at home and %d in the outbox, want 0 and 1", n, left)
		}
		forwardFor(t, newer, time.Minute)
		if n := len(pending(t, two, "mails")); n != 1 {
			t.Errorf("after the newer program: %d jobs have arrived, want 1", n)
		}
	})
}

// TestForwardBesideHanging: while a backend hangs, jobs for another one arrive, also those of lines
// with the same name.
func TestForwardBesideHanging(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		const jobs = 1000
		home, hanging, works := memory.New(memory.Options{}), newFaulty(), memory.New(memory.Options{})
		hanging.hangs.Store(true)
		q := route(t, router.Routes{"*": home, "clicks": hanging, "mails": works},
			router.Options{Logger: quiet, Order: []queue.Queue{home, hanging, works}})
		first := job("clicks", 0)
		first.Group, first.Ordered = "ada", true
		commit(t, home, q, first)
		for i := range jobs {
			large := job("clicks", i)
			large.Payload = fmt.Appendf(nil, `%q`, strings.Repeat("x", 100<<10))
			commit(t, home, q, large)
		}
		ordered := job("mails", 0)
		ordered.Group, ordered.Ordered = "ada", true
		commit(t, home, q, job("mails", 1), ordered)
		forwardFor(t, q, time.Minute)
		if n := len(pending(t, works, "mails")); n != 2 {
			t.Errorf("jobs of the backend that works: %d have arrived in a minute, want 2", n)
		}
	})
}

// deaf is a backend that takes a millisecond to receive jobs. If it is told to, it hangs or panics
// then when it receives certain jobs.
type deaf struct {
	*memory.Queue
	hangs, panics atomic.Bool
	to            func(*queue.Job) bool
}

func deafTo(to func(*queue.Job) bool) *deaf {
	return &deaf{Queue: memory.New(memory.Options{Retention: forever}), to: to}
}

func all(*queue.Job) bool { return true }

func oneInTen(j *queue.Job) bool { return strings.HasSuffix(string(j.Payload), "7") }

func (d *deaf) Receive(ctx context.Context, transfers ...driver.Transfer) (int, error) {
	isMeant := slices.ContainsFunc(transfers, func(t driver.Transfer) bool { return d.to(t.Job) })
	if isMeant && d.hangs.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if isMeant && d.panics.Load() {
		panic("boom")
	}
	time.Sleep(time.Millisecond)
	return d.Queue.Receive(ctx, transfers...)
}

// TestForwardAfterHanging: once a call to a backend has hung, jobs for others arrive within two
// seconds, although hundreds for it are tried again; and when it works, all of them arrive.
func TestForwardAfterHanging(t *testing.T) {
	for name, newTarget := range map[string]func() (queue.Queue, *atomic.Bool){
		"everything":    func() (queue.Queue, *atomic.Bool) { f := newFaulty(); return f, &f.hangs },
		"receiving":     func() (queue.Queue, *atomic.Bool) { d := deafTo(all); return d, &d.hangs },
		"one partition": func() (queue.Queue, *atomic.Bool) { d := deafTo(oneInTen); return d, &d.hangs },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testForwardAfterHanging(t, newTarget) })
		})
	}
}

func testForwardAfterHanging(t *testing.T, newTarget func() (queue.Queue, *atomic.Bool)) {
	const jobs, later = 500, 100
	target, hangs := newTarget()
	home, works := memory.New(memory.Options{}), memory.New(memory.Options{})
	q := route(t, router.Routes{"*": home, "clicks": target, "mails": works},
		router.Options{Logger: quiet, Order: []queue.Queue{home, target, works}})
	hangs.Store(true)
	for i := range jobs {
		commit(t, home, q, job("clicks", i))
	}
	var running sync.WaitGroup
	running.Go(func() { forwardFor(t, q, 4*time.Minute) })
	time.Sleep(11 * time.Second)
	for i := range later {
		start := time.Now()
		commit(t, home, q, job("clicks", jobs+i), job("mails", i))
		for len(pending(t, works, "mails")) <= i && time.Since(start) < 15*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		if waited := time.Since(start); waited > 2*time.Second {
			t.Fatalf("job %d of the backend that works has waited for %v, want at most 2s", i, waited)
		}
		time.Sleep(500 * time.Millisecond)
	}
	hangs.Store(false)
	time.Sleep(time.Minute)
	if n := len(pending(t, target, "clicks")); n != jobs+later {
		t.Errorf("a minute after the backend works again %d jobs have arrived, want %d", n, jobs+later)
	}
	running.Wait()
}

// TestForwardBesideHangingPart: while a part of a backend hangs, jobs for the rest of it arrive.
func TestForwardBesideHangingPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 900 // of which 90 hang
		home, target := memory.New(memory.Options{}), deafTo(oneInTen)
		target.hangs.Store(true)
		q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: quiet})
		for i := range jobs {
			commit(t, home, q, job("clicks", i))
		}
		forwardFor(t, q, 10*time.Minute)
		if n := len(pending(t, target, "clicks")); n < 700 {
			t.Errorf("of 810 jobs that do not hang %d have arrived in ten minutes, want 700", n)
		}
	})
}

// TestForwardRecovers: when a backend works again, the jobs that were tried meanwhile arrive within
// a minute, although no further job comes that could show sooner that it works.
func TestForwardRecovers(t *testing.T) {
	for name, fault := range map[string]func(*deaf) *atomic.Bool{
		"hangs":  func(d *deaf) *atomic.Bool { return &d.hangs },
		"panics": func(d *deaf) *atomic.Bool { return &d.panics },
	} {
		for _, jobs := range []int{1, 20, 300} {
			t.Run(fmt.Sprintf("%s/%d", name, jobs), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					target := deafTo(all)
					testForwardRecovers(t, target, fault(target), jobs)
				})
			})
		}
	}
}

func testForwardRecovers(t *testing.T, target queue.Queue, fault *atomic.Bool, jobs int) {
	home := memory.New(memory.Options{})
	q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: quiet})
	fault.Store(true)
	for i := range jobs {
		commit(t, home, q, job("clicks", i))
	}
	var running sync.WaitGroup
	running.Go(func() { forwardFor(t, q, 2*time.Minute) })
	defer running.Wait()
	time.Sleep(35 * time.Second)
	fault.Store(false)
	time.Sleep(time.Minute)
	if n := len(pending(t, target, "clicks")); n != jobs {
		t.Errorf("a minute after the backend works again %d jobs have arrived, want %d", n, jobs)
	}
}

// storedAddresses are headers of jobs in the outbox as programs of other versions have written
// them, and the jobs that arrive.
var storedAddresses = map[string]queue.Job{
	`{"source":"S","backend":1,"queue":"clicks","priority":-3,"delay_ns":7000,"max_attempts":9,"key":"key",` +
		`"on_duplicate":"replace","max_delay_ns":8000}`: {
		Priority: -3, Delay: 7000, MaxAttempts: 9, Key: "key", OnDuplicate: queue.Replace, MaxDelay: 8000,
	},
	`{"source":"S","backend":1,"queue":"clicks","scheduled_at":"2020-02-03T04:05:06Z","group":"group","ordered":true,"cost":4}`: {
		ScheduledAt: time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC), Group: "group", Ordered: true, Cost: 4,
	},
}

// TestForwardStored: a job that an earlier version has written to the outbox arrives as it was, and
// once, and this version writes the same.
func TestForwardStored(t *testing.T) {
	for address, want := range storedAddresses {
		want.Queue, want.Kind, want.Payload = "clicks", "k", []byte("1")
		synctest.Test(t, func(t *testing.T) { testForwardStored(t, address, want) })
	}
}

func testForwardStored(t *testing.T, address string, want queue.Job) {
	home, target := memory.New(memory.Options{}), &kept{Queue: memory.New(memory.Options{})}
	q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: quiet})
	for range 2 {
		enqueue(t, home, nil, &queue.Job{
			Queue: router.Outbox, Kind: "k", Payload: []byte("1"), Headers: map[string]string{router.Outbox: address},
		})
	}
	forwardFor(t, q, time.Minute)
	if len(target.jobs) != 1 {
		t.Fatalf("jobs that have arrived: got %d, want 1", len(target.jobs))
	}
	got := target.jobs[0]
	got.CreatedAt = time.Time{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a job that has arrived:\n got %+v\nwant %+v", got, want)
	}
	commit(t, home, q, &want)
	written := pending(t, home, router.Outbox)[0].Headers[router.Outbox]
	written = regexp.MustCompile(`^{"source":"[A-Z2-7]+"`).ReplaceAllString(written, `{"source":"S"`)
	if written != address {
		t.Errorf("what this version writes:\n got %s\nwant %s", written, address)
	}
}

// kept is a backend that keeps the jobs that it has received first.
type kept struct {
	*memory.Queue
	jobs []queue.Job
}

func (k *kept) Receive(ctx context.Context, transfers ...driver.Transfer) (n int, err error) {
	jobs := make([]queue.Job, len(transfers))
	for i, x := range transfers {
		jobs[i] = *x.Job
	}
	if n, err = k.Queue.Receive(ctx, transfers...); n > 0 {
		k.jobs = append(k.jobs, jobs[:n]...)
	}
	return n, err
}

// TestForwardNowhere: a job of the outbox whose backend is the home, which has no outbox for
// itself, does not arrive there.
func TestForwardNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := memory.New(memory.Options{})
		q := route(t, router.Routes{"*": home, "clicks": memory.New(memory.Options{})}, router.Options{Logger: quiet})
		for _, number := range []string{"0", "-1", "2"} {
			enqueue(t, home, nil, &queue.Job{Queue: router.Outbox, Kind: "k", MaxAttempts: 100, Headers: map[string]string{
				router.Outbox: `{"source":"` + number + `","backend":` + number + `,"queue":"clicks"}`,
			}})
		}
		forwardFor(t, q, time.Minute)
		if arrived, left := len(pending(t, home, "clicks")), len(pending(t, home, router.Outbox)); arrived != 0 || left != 3 {
			t.Errorf("got %d jobs at home and %d in the outbox, want 0 and 3", arrived, left)
		}
	})
}

// panics is a backend whose first Receive takes long, and whose second one panics.
type panics struct {
	*memory.Queue
	calls int
}

func (p *panics) Receive(ctx context.Context, transfers ...driver.Transfer) (int, error) {
	switch p.calls++; p.calls {
	case 1:
		time.Sleep(time.Second)
	case 2:
		panic("driver")
	}
	return p.Queue.Receive(ctx, transfers...)
}

// TestForwardPanics: after a backend has panicked, all jobs of the call are sent again.
func TestForwardPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, target := memory.New(memory.Options{}), &panics{Queue: memory.New(memory.Options{})}
		q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: quiet})
		commit(t, home, q, job("clicks", 0), job("clicks", 1), job("clicks", 2))
		forwardFor(t, q, 10*time.Minute)
		wantNumbers(t, pending(t, target, "clicks"), 3)
	})
}
