package sqlkit_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

// late is a context whose timer has not fired yet.
type late struct {
	context.Context
	at time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.at, true }

// TestWrapDeadline: an error after the deadline is one that errors.Is finds to be ctx's.
func TestWrapDeadline(t *testing.T) {
	for _, c := range []struct {
		left time.Duration
		want bool
	}{{-time.Nanosecond, true}, {time.Hour, false}} {
		err := sqlkit.Wrap(late{t.Context(), time.Now().Add(c.left)}, "db", "claim", os.ErrDeadlineExceeded)
		if got := errors.Is(err, context.DeadlineExceeded); got != c.want || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v before the deadline: got %v, want ctx's error in it: %v", c.left, err, c.want)
		}
	}
}
