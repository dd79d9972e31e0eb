package harness

import (
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/bench/internal/server"
)

func TestScale(t *testing.T) {
	h := &Harness{Scale: 0.01}
	if got := h.Jobs(100_000); got != 1000 {
		t.Errorf("jobs: got %d, want 1000", got)
	}
	if got := h.Jobs(200); got != 100 {
		t.Errorf("few jobs: got %d, want 100", got)
	}
	if got := h.Duration(time.Minute); got != 600*time.Millisecond {
		t.Errorf("duration: got %v, want 600ms", got)
	}
	if got := h.Duration(time.Second); got != 200*time.Millisecond {
		t.Errorf("short duration: got %v, want 200ms", got)
	}
}

func TestUsageIsByTheJob(t *testing.T) {
	u := Usage{
		before:  server.Reading{SQL: true, WAL: 1000, Commits: 10, Timed: true, CPU: time.Second},
		after:   server.Reading{SQL: true, WAL: 71000, Commits: 30, Timed: true, CPU: 2 * time.Second},
		cpu:     0.5,
		peakRSS: 64 << 20,
	}
	want := []result.Figure{
		result.NewFigure(result.PeakRSS, 64), result.NewFigure(result.CPU, 5000), result.NewFigure(result.ServerCPU, 10_000), result.NewFigure(result.WAL, 700), result.NewFigure(result.Commits, 0.2),
	}
	if got := u.Figures(100); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want = []result.Figure{result.NewFigure(result.PeakRSS, 0), result.NewFigure(result.CPU, 0), result.NewFigure(result.Written, 20)}
	if got := (Usage{written: 2000}).Figures(100); !slices.Equal(got, want) {
		t.Errorf("of a file: got %v, want %v", got, want)
	}
	if got := (Usage{}).Figures(100); len(got) != 2 {
		t.Errorf("of a server that tells nothing: got %v, want the processes' own", got)
	}
}
