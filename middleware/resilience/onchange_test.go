package resilience_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/middleware/resilience"
	"github.com/errandhq/errand/queue"
)

// changes keeps what OnChange was told.
type changes struct {
	mu   sync.Mutex
	list []string
}

func (c *changes) note(kind string, from, to resilience.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf("%s: %s to %s", kind, from, to))
}

func TestOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told changes
		m := resilience.CircuitBreaker(resilience.CircuitBreakerOptions{Failures: 1, Delay: time.Minute, OnChange: told.note})
		wantRan(t, "the job that opens it", m, "mail", errDown)
		wantRan(t, "of another kind", m, "report", nil)
		time.Sleep(time.Minute)
		trial := hold(t, m, "mail")
		if got := len(told.list); got != 2 {
			t.Errorf("told of %d changes while the trial runs, want 2: %q", got, told.list)
		}
		trial.end(errDown)
		time.Sleep(time.Minute)
		wantRan(t, "the second trial", m, "mail", nil)
		want := []string{
			"mail: closed to open", "mail: open to half-open", "mail: half-open to open",
			"mail: open to half-open", "mail: half-open to closed",
		}
		if !slices.Equal(told.list, want) {
			t.Errorf("changes: got %q, want %q", told.list, want)
		}
	})
}

// TestOnChangeInOrder: one at a time and in their order, for which no other job of the kind waits.
func TestOnChangeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told changes
		m := resilience.CircuitBreaker(resilience.CircuitBreakerOptions{
			Failures: 1,
			Delay:    time.Minute,
			OnChange: func(kind string, from, to resilience.State) {
				time.Sleep(2 * time.Minute) // longer than it takes to change again
				told.note(kind, from, to)
			},
		})
		from := time.Now()
		var opening sync.WaitGroup
		opening.Go(func() { wantRan(t, "the job that opens it", m, "mail", errDown) })
		synctest.Wait()
		wantSnoozed(t, "while OnChange is told that it is open", m, "mail", time.Minute, 66*time.Second)
		time.Sleep(time.Minute)
		wantRan(t, "the trial meanwhile", m, "mail", nil)
		if took := time.Since(from); took != time.Minute {
			t.Errorf("the trial was over after %v, want a minute", took)
		}
		opening.Wait()
		want := []string{"mail: closed to open", "mail: open to half-open", "mail: half-open to closed"}
		if !slices.Equal(told.list, want) {
			t.Errorf("changes: got %q, want %q", told.list, want)
		}
	})
}

// TestOnChangePanics: the job's run panics, and its permit is released.
func TestOnChangePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tripped(t, resilience.CircuitBreakerOptions{
			Delay: time.Minute,
			OnChange: func(_ string, _, to resilience.State) {
				if to == resilience.HalfOpen {
					panic("boom")
				}
			},
		})
		for range 3 {
			time.Sleep(time.Minute)
			wantPanic(t, "boom", func() {
				_ = once(t, m, "mail", queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
			})
		}
		wantSnoozed(t, "after a trial that panicked", m, "mail", time.Minute, 66*time.Second)
	})
}
