package router_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// triggered is a target whose database raises an error of its own for some jobs.
type triggered struct {
	*memory.Queue
	isBad func(payload string) bool
}

func (t *triggered) Receive(ctx context.Context, transfers ...driver.Transfer) (int, error) {
	for _, x := range transfers {
		if t.isBad(string(x.Job.Payload)) {
			return 0, errors.New("a trigger raises for job " + string(x.Job.Payload))
		}
	}
	return t.Queue.Receive(ctx, transfers...)
}

// TestForwardBesideBadRows: the database of a backend fails for some jobs of the outbox. The others
// arrive within seconds, also those that come later, and the bad ones stay. The backend works.
func TestForwardBesideBadRows(t *testing.T) {
	for name, isBad := range map[string]func(string) bool{
		"one":             func(payload string) bool { return payload == "7" },
		"three in a part": func(payload string) bool { return strings.HasSuffix(payload, "7") },
		"a third":         func(payload string) bool { return strings.ContainsAny(payload[len(payload)-1:], "369") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testForwardBesideBadRows(t, isBad) })
		})
	}
}

func testForwardBesideBadRows(t *testing.T, isBad func(string) bool) {
	const parts, each = 3, 30
	var log strings.Builder
	home, target := memory.New(memory.Options{}), &triggered{Queue: memory.New(memory.Options{}), isBad: isBad}
	q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}) }()
	good := 0
	for part := range parts {
		var jobs []*queue.Job
		for i := range each {
			jobs = append(jobs, job("clicks", part*each+i))
			if !isBad(string(jobs[i].Payload)) {
				good++
			}
		}
		commit(t, home, q, jobs...)
		time.Sleep(10 * time.Second)
		if n := len(pending(t, target, "clicks")); n != good {
			t.Errorf("after part %d: %d jobs have arrived, want all that are good: %d", part+1, n, good)
		}
	}
	time.Sleep(10 * time.Minute)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	left := pending(t, home, router.Outbox)
	wasTriedOnce := slices.ContainsFunc(left, func(r queue.Record) bool { return r.Attempt < 2 })
	if want := parts*each - good; len(left) != want || wasTriedOnce {
		t.Errorf("in the outbox: got %d jobs, one that was tried only once: %v; want %d, false", len(left), wasTriedOnce, want)
	}
	if log.Len() > 0 {
		t.Errorf("the log speaks of a backend that works:\n%s", log.String())
	}
}

// hanging is a triggered target that hangs for a while.
type hanging struct {
	triggered
	until time.Time
}

func (h *hanging) Receive(ctx context.Context, transfers ...driver.Transfer) (int, error) {
	if time.Now().Before(h.until) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return h.triggered.Receive(ctx, transfers...)
}

// TestForwardBesideBadRowsAfterHanging: a backend has hung, and works again but for some jobs of
// the outbox. Each failure of those leaves it out again, and the good job arrives all the same.
func TestForwardBesideBadRowsAfterHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bad, outage = 20, 5 * time.Minute
		home := memory.New(memory.Options{})
		target := &hanging{until: time.Now().Add(outage)}
		target.Queue, target.isBad = memory.New(memory.Options{}), func(payload string) bool { return payload != "0" }
		q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: quiet})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}) }()
		for i := range bad {
			commit(t, home, q, job("clicks", bad-i))
			time.Sleep(1500 * time.Millisecond)
		}
		commit(t, home, q, job("clicks", 0))
		time.Sleep(outage + time.Hour)
		if n := len(pending(t, target, "clicks")); n != 1 {
			t.Errorf("%d jobs have arrived, want the good one", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// counting is a backend that counts calls of Receive.
type counting struct {
	*faulty
	calls atomic.Int64
}

func (c *counting) Receive(ctx context.Context, transfers ...driver.Transfer) (int, error) {
	c.calls.Add(1)
	return c.faulty.Receive(ctx, transfers...)
}

// TestForwardDuringOutage: while a backend refuses each call, the outbox asks it ever more rarely
// and the log says so once. When it works again, all jobs arrive within a minute.
func TestForwardDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, outage = 300, 10 * time.Minute
		var log strings.Builder
		home, target := memory.New(memory.Options{}), &counting{faulty: newFaulty()}
		target.isDown.Store(true)
		q := route(t, router.Routes{"*": home, "clicks": target}, router.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- q.Upkeep(ctx, driver.UpkeepOptions{Logger: quiet}) }()
		for i := range jobs {
			commit(t, home, q, job("clicks", i))
		}
		time.Sleep(outage)
		if calls, most := target.calls.Load(), int64(outage/time.Second); calls > most {
			t.Errorf("calls in %v: got %d, want at most %d", outage, calls, most)
		}
		for i, r := range pending(t, home, router.Outbox) {
			if r.Attempt > 60 {
				t.Errorf("job %d of the outbox was tried %d times, want at most 60", i, r.Attempt)
				break
			}
		}
		target.isDown.Store(false)
		time.Sleep(time.Minute)
		if n := len(pending(t, target, "clicks")); n != jobs {
			t.Errorf("a minute after the backend works again %d jobs have arrived, want %d", n, jobs)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if failed, works := strings.Count(log.String(), "has failed"), strings.Count(log.String(), "works again"); failed != 1 || works != 1 {
			t.Errorf("the log says %d times that the backend has failed and %d times that it works, want once each:\n%s",
				failed, works, log.String())
		}
	})
}
