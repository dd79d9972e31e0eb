package limits_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
)

// TestUntilTokens: a worker that is a little too late for tokens claims soon, and not at its poll.
func TestUntilTokens(t *testing.T) {
	for _, c := range []struct{ next, wait, want time.Duration }{
		{-1, 300 * time.Microsecond, 300 * time.Microsecond},
		{time.Millisecond, time.Second, time.Millisecond},
		{time.Second, time.Millisecond, time.Millisecond},
		{-1, -time.Millisecond, 5 * time.Millisecond},
		{time.Millisecond, -time.Millisecond, time.Millisecond},
		{-1, time.Until(time.Time{}), -1},
		{time.Minute, -2 * time.Second, time.Minute},
	} {
		if got := limits.UntilTokens(c.next, c.wait); got != c.want {
			t.Errorf("next %v, tokens after %v: got %v, want %v", c.next, c.wait, got, c.want)
		}
	}
}
