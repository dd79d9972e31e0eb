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

// TestRestOfClaim: the rest of a claim that has jobs takes a small part of a worker's lease.
func TestRestOfClaim(t *testing.T) {
	for _, c := range []struct{ lease, want time.Duration }{
		{time.Millisecond, time.Second}, {99 * time.Millisecond, time.Second}, {100 * time.Millisecond, 10 * time.Millisecond},
		{5 * time.Second, 500 * time.Millisecond}, {time.Hour, time.Second},
	} {
		if got := limits.RestOfClaim(c.lease, time.Second); got != c.want {
			t.Errorf("lease %v: got %v, want %v", c.lease, got, c.want)
		}
	}
}
