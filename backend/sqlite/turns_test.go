package sqlite

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// TestTurnsOrder: writers go in as they came, the urgent ones first, and one that gives up is passed over, also when it
// gives up in the moment in which its turn comes.
func TestTurnsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s turns
		if err := s.enter(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		var order []string
		wait := func(name string, urgent bool, ctx context.Context) {
			go func() {
				if err := s.enter(ctx, urgent); err != nil {
					order = append(order, name+" gives up")
					return
				}
				order = append(order, name)
				s.leave()
			}()
			synctest.Wait()
		}
		short, giveUp := context.WithCancel(t.Context())
		wait("first", false, t.Context())
		wait("second", false, short)
		wait("third", false, t.Context())
		wait("urgent", true, t.Context())
		wait("urgent too", true, t.Context())
		giveUp()
		synctest.Wait()
		s.leave()
		synctest.Wait()
		want := []string{"second gives up", "urgent", "urgent too", "first", "third"}
		if !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
		mine := s.join(false)
		s.quit(mine) // after its turn has come
		if err := s.enter(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := s.enter(ended, true); !errors.Is(err, context.Canceled) {
			t.Errorf("enter with a context that has ended: %v, want its error", err)
		}
		s.leave()
		if s.taken || len(s.urgent)+len(s.rest) > 0 {
			t.Errorf("when all have left it is %+v, want that nobody has the turn", &s)
		}
	})
}
