package plain_test

import (
	"testing"
	"time"

	"github.com/errandhq/errand/internal/plain"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Second: "10s", 84 * time.Second: "1m24s", 20 * time.Minute: "20m", 90 * time.Minute: "1h30m",
		48 * time.Hour: "48h", 10 * time.Hour: "10h", time.Hour + time.Second: "1h0m1s", 100 * time.Millisecond: "100ms", -time.Hour: "-1h",
	} {
		got := plain.Duration(d)
		if back, err := time.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%v: got %s, error %v, want %s", d, got, err, want)
		}
	}
}
