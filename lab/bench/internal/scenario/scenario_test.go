package scenario

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/bench/internal/server"
)

// TestTargetsAreMeasurable: what a target speaks of is among the scenario's systems
// and cases.
func TestTargetsAreMeasurable(t *testing.T) {
	for _, s := range All {
		if base := cmp.Or(s.Base, result.Baseline); !s.Series && !slices.Contains(s.Systems, base) {
			t.Errorf("%s: %s, which the others are compared with, is none of its systems", s.Name, base)
		}
		for _, g := range s.Targets {
			places := []result.Place{g.Of}
			if g.Over != nil {
				places = append(places, *g.Over)
			}
			for _, p := range places {
				if !slices.Contains(s.Systems, p.System) {
					t.Errorf("%s: %s: %s is none of its systems", s.Name, g, p.System)
				}
				if len(s.Cases) > 0 && !slices.Contains(s.Cases, p.Case) {
					t.Errorf("%s: %s: %q is none of its cases", s.Name, g, p.Case)
				}
			}
		}
		for _, name := range s.Systems {
			peer.Named(name)
		}
		if s.Title == "" || s.Note == "" || len(s.Chart) == 0 {
			t.Errorf("%s: want a title, a note and a chart", s.Name)
		}
	}
}

// pretend runs a scenario that measures nothing, and returns in which order it
// was asked to.
func pretend(t *testing.T, s Scenario, o Options, measure func(turn string) ([]result.Figure, error)) (order []string, table *result.Table) {
	t.Helper()
	s.measure = func(_ context.Context, _ *Lab, system peer.System, name string) ([]result.Figure, error) {
		order = append(order, system.Name+"/"+name)
		return measure(system.Name + "/" + name)
	}
	o.Scenarios = []Scenario{s}
	o.Progress = io.Discard
	tables, err := Run(t.Context(), o, &server.Servers{RedisErr: errors.New("redis-server is not installed")})
	if err != nil {
		t.Fatal(err)
	}
	return order, tables[0]
}

func one(string) ([]result.Figure, error) {
	return []result.Figure{is(result.Throughput, 1)}, nil
}

func TestRoundsAlternate(t *testing.T) {
	s := Scenario{Name: "test", Cases: []string{"a", "b"}, Systems: []string{"errand", "floor", "river-best"}}
	order, table := pretend(t, s, Options{Rounds: 2, Against: []string{"floor"}}, one)
	want := []string{"errand/a", "floor/a", "errand/b", "floor/b", "floor/b", "errand/b", "floor/a", "errand/a"}
	if !slices.Equal(order, want) {
		t.Errorf("order: got %v, want %v", order, want)
	}
	if row := table.Row(result.Place{Case: "b", System: "floor"}, result.Throughput); row == nil || len(row.Values) != 2 {
		t.Errorf("floor in case b: got %+v, want two rounds", row)
	}
}

func TestScenarioLimitsItsRounds(t *testing.T) {
	order, _ := pretend(t, Scenario{Systems: []string{"errand"}, Rounds: 1}, Options{Rounds: 3}, one)
	if len(order) != 1 {
		t.Errorf("got %v, want one round", order)
	}
}

func TestWhatCannotBeHadIsNamed(t *testing.T) {
	order, table := pretend(t, Scenario{Systems: []string{"errand", "asynq"}}, Options{Rounds: 2, Against: []string{"asynq"}}, one)
	if want := []string{"errand/", "errand/"}; !slices.Equal(order, want) {
		t.Errorf("order: got %v, want %v", order, want)
	}
	want := result.Gap{Place: result.Place{System: "asynq"}, Reason: "redis-server is not installed"}
	if !slices.Equal(table.Gaps, []result.Gap{want}) {
		t.Errorf("gaps: got %+v, want %+v", table.Gaps, want)
	}
}

func TestWhatFailsIsNoFigure(t *testing.T) {
	_, table := pretend(t, Scenario{Systems: []string{"errand", "floor"}}, Options{Rounds: 1, Against: []string{"floor"}},
		func(turn string) ([]result.Figure, error) {
			if turn == "floor/" {
				return nil, errors.New("99 of 100 jobs")
			}
			return one(turn)
		})
	if len(table.Rows) != 1 || table.Rows[0].System != "errand" {
		t.Errorf("rows: got %+v, want errand's alone", table.Rows)
	}
	if len(table.Gaps) != 1 || !table.Gaps[0].Failed || table.Gaps[0].Reason != "99 of 100 jobs" {
		t.Errorf("gaps: got %+v, want the failure", table.Gaps)
	}
}

func TestSystemsAreThoseThatAreAskedFor(t *testing.T) {
	o := Options{Scenarios: []Scenario{{Systems: []string{"errand", "asynq", "river-best"}}, {Systems: []string{"errand", "ideal"}}}, Against: []string{"river"}}
	var names []string
	for _, s := range o.Systems() {
		names = append(names, s.Name)
	}
	if want := []string{"errand", "river-best", "ideal"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestScale(t *testing.T) {
	l := &Lab{Scale: 0.01}
	if got := l.jobs(100_000); got != 1000 {
		t.Errorf("jobs: got %d, want 1000", got)
	}
	if got := l.jobs(200); got != 100 {
		t.Errorf("few jobs: got %d, want 100", got)
	}
	if got := l.duration(time.Minute); got != 600*time.Millisecond {
		t.Errorf("duration: got %v, want 600ms", got)
	}
	if got := l.duration(time.Second); got != 200*time.Millisecond {
		t.Errorf("short duration: got %v, want 200ms", got)
	}
}

func TestUsageIsByTheJob(t *testing.T) {
	u := usage{
		before:  server.Reading{SQL: true, WAL: 1000, Commits: 10, Timed: true, CPU: time.Second},
		after:   server.Reading{SQL: true, WAL: 71000, Commits: 30, Timed: true, CPU: 2 * time.Second},
		cpu:     0.5,
		peakRSS: 64 << 20,
	}
	want := []result.Figure{
		is(result.PeakRSS, 64), is(result.CPU, 5000), is(result.ServerCPU, 10_000), is(result.WAL, 700), is(result.Commits, 0.2),
	}
	if got := u.figures(100); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want = []result.Figure{is(result.PeakRSS, 0), is(result.CPU, 0), is(result.Written, 20)}
	if got := (usage{written: 2000}).figures(100); !slices.Equal(got, want) {
		t.Errorf("of a file: got %v, want %v", got, want)
	}
	if got := (usage{}).figures(100); len(got) != 2 {
		t.Errorf("of a server that tells nothing: got %v, want the processes' own", got)
	}
}

func TestSoakQuarters(t *testing.T) {
	var samples [][]result.Figure
	for i := range 8 {
		samples = append(samples, []result.Figure{is(result.RSS, float64(i))})
	}
	figures := soakFigures(samples, time.Minute)
	want := []result.Figure{
		{Case: "at 1 min", Metric: result.RSS, Value: 0},
		{Case: earlyCase, Metric: result.RSS, Value: 2.5}, // of 2 and 3
		{Case: lateCase, Metric: result.RSS, Value: 6.5},  // of 6 and 7
	}
	if got := []result.Figure{figures[0], figures[8], figures[9]}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := soakFigures(nil, time.Minute); len(got) != 0 {
		t.Errorf("without a sample: got %v", got)
	}
}
