package engine_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

// TestNextTickAfterClockWentBack: a small step back repeats no tick of a cron expression. "@every"
// counts elapsed time.
func TestNextTickAfterClockWentBack(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 20, 0, time.UTC)
	for _, c := range []struct {
		spec       string
		last, want time.Duration // from now
	}{
		{"* * * * *", -20 * time.Second, 40 * time.Second},
		{"* * * * *", 10*time.Minute + 40*time.Second, 11*time.Minute + 40*time.Second},
		{"* * * * *", time.Hour, 40 * time.Second},
		{"@every 5s", -20 * time.Second, 5 * time.Second},
		{"@every 5s", 10 * time.Minute, 5 * time.Second},
		{"@every 5s", time.Hour, 5 * time.Second},
	} {
		got, err := queue.Schedule{Spec: c.spec}.NextTick(now, now.Add(c.last))
		if err != nil || !got.Equal(now.Add(c.want)) {
			t.Errorf("%s, last tick in %v: got in %v, %v; want in %v", c.spec, c.last, got.Sub(now), err, c.want)
		}
	}
}
