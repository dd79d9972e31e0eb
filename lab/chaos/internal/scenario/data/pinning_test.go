package data

import (
	"testing"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
)

func TestPercentile(t *testing.T) {
	p := pinning{}
	for i := range 200 {
		p.claims = append(p.claims, child.NewClaimTime(atSecond(float64(i)/100), time.Duration(i+1)*time.Millisecond))
	}
	if got, n := p.percentile(atSecond(0), atSecond(1)); got != 99*time.Millisecond || n != 100 {
		t.Errorf("got %v of %d, want 99ms of 100", got, n)
	}
	if got, n := p.percentile(atSecond(5), atSecond(6)); got != 0 || n != 0 {
		t.Errorf("got %v of %d, want none", got, n)
	}
}

func TestBacklog(t *testing.T) {
	p := pinning{}
	for i := range 100 {
		p.acked = append(p.acked, atSecond(float64(i)/100))
		p.started = append(p.started, atSecond(float64(i)/100+0.25))
	}
	if got := p.backlog(atSecond(0.5), atSecond(1)); got < 24 || got > 26 {
		t.Errorf("got %v, want about 25", got)
	}
	if got := rate(p.acked, atSecond(0), atSecond(0.5)); got != 100 {
		t.Errorf("rate: got %v, want 100", got)
	}
}

func atSecond(s float64) time.Time { return time.Unix(0, int64(s*float64(time.Second))) }
