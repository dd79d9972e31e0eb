package sqlkit_test

import (
	"math"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
)

// TestMicroseconds: part of a microsecond counts as a whole one, also at the end of the range.
func TestMicroseconds(t *testing.T) {
	const most = math.MaxInt64/1000 + 1
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, 999: 1, 1000: 1, 1001: 2, -1: 0, -1000: -1, -1001: -1,
		math.MaxInt64: most, math.MaxInt64 - 807: most - 1, math.MaxInt64 - 806: most, math.MinInt64: -most + 1,
	} {
		if got := sqlkit.Microseconds(d); got != want {
			t.Errorf("%d ns: got %d µs, want %d", d, got, want)
		}
	}
}
