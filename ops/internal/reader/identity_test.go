package reader

import (
	"strings"
	"testing"
	"time"
)

// TestSkew: explain.Job tells of a clock that is wrong for certain.
func TestSkew(t *testing.T) {
	asked := time.Now()
	for ahead, want := range map[time.Duration]string{
		0:                       "",
		1400 * time.Millisecond: "", // half of the answer's second may be it
		time.Minute:             "the database's clock is 1m ahead of that of this host",
		-2 * time.Second:        "the database's clock is 2s behind that of this host",
	} {
		i := Identity{Asked: asked, Replied: asked.Add(time.Second), Clock: asked.Add(time.Second/2 + ahead)}
		if got := strings.Join(i.Skew(), "\n"); got != want {
			t.Errorf("%v ahead: got %q, want %q", ahead, got, want)
		}
	}
}
