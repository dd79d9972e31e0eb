package writelock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsOrder: writers go in as they came, the urgent ones first, and one that gives up is
// passed over, also when it gives up in the moment in which its turn comes. A long one is followed
// by the ordinary ones that waited when it ended.
func TestTurnsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s turns
		if err := s.enter(t.Context(), Long, time.Minute); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		var wait func(name string, r Rank, ctx context.Context, meanwhile ...string)
		wait = func(name string, r Rank, ctx context.Context, meanwhile ...string) {
			go func() {
				if err := s.enter(ctx, r, time.Minute); err != nil {
					note(name + " gives up")
					return
				}
				note(name)
				for _, other := range meanwhile {
					wait(other, Ordinary, t.Context())
				}
				s.leave()
			}()
			time.Sleep(time.Millisecond)
		}
		short, giveUp := context.WithCancel(t.Context())
		wait("long", Long, t.Context(), "late")
		wait("long too", Long, t.Context())
		wait("first", Ordinary, t.Context(), "fourth")
		wait("second", Ordinary, short)
		wait("third", Ordinary, t.Context())
		wait("urgent", Urgent, t.Context())
		wait("urgent too", Urgent, t.Context())
		giveUp()
		time.Sleep(time.Millisecond)
		s.leave()
		time.Sleep(time.Second)
		want := []string{"second gives up", "urgent", "urgent too", "first", "third", "long", "fourth", "late", "long too"}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
	})
}

// TestTurnsGiveUp: a writer that gives up leaves nothing behind, whether its turn has come or not.
func TestTurnsGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s turns
		mine := s.join(Ordinary)
		s.quit(mine) // after its turn has come
		if err := s.enter(t.Context(), Ordinary, time.Minute); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := s.enter(ended, Urgent, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("enter with a context that has ended: %v, want its error", err)
		}
		begun := time.Now()
		err := s.enter(t.Context(), Ordinary, time.Minute)
		if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), "write lock for 1m0s") || took != time.Minute {
			t.Errorf("enter while nobody leaves: %v after %v, want that others have had the write lock for 1m0s", err, took)
		}
		s.leave()
		if s.taken || len(slices.Concat(s.waiting[:]...)) > 0 {
			t.Errorf("when all have left it is %+v, want that nobody has the turn", &s)
		}
	})
}

// TestConnectHasItsOwnTimeout: a writer whose turn comes when its timeout is nearly over still has
// time to take a connection.
func TestConnectHasItsOwnTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Lock{}
		const timeout = 300 * time.Millisecond
		connect := func(waiting context.Context) error {
			if ends, ok := waiting.Deadline(); !ok || time.Until(ends) != timeout {
				t.Errorf("connect may take until %v, want %v", time.Until(ends), timeout)
			}
			return nil
		}
		first, err := l.Acquire(t.Context(), Ordinary, timeout, connect)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(timeout-1, func() { first.Release(false) })
		second, err := l.Acquire(t.Context(), Ordinary, timeout, connect)
		if err != nil {
			t.Fatal(err)
		}
		second.Release(false)
	})
}
