package runner

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/bench/internal/scenario"
	"github.com/errandhq/errand/lab/bench/internal/server"
)

// pretend runs a scenario that measures nothing. It returns the order of the calls.
func pretend(t *testing.T, s scenario.Scenario, o Options, measure func(turn string) ([]result.Figure, error)) (order []string, table *result.Table) {
	t.Helper()
	s.Measure = func(_ context.Context, _ *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
		order = append(order, system.Name+"/"+name)
		return measure(system.Name + "/" + name)
	}
	o.Scenarios = []scenario.Scenario{s}
	o.Progress = io.Discard
	tables, err := Run(t.Context(), o, &server.Servers{RedisErr: errors.New("redis-server is not installed")})
	if err != nil {
		t.Fatal(err)
	}
	return order, tables[0]
}

func one(string) ([]result.Figure, error) {
	return []result.Figure{result.NewFigure(result.Throughput, 1)}, nil
}

func TestRoundsAlternate(t *testing.T) {
	s := scenario.Scenario{Name: "test", Cases: []string{"a", "b"}, Systems: []string{"errand", "floor", "river-best"}}
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
	order, table := pretend(t, scenario.Scenario{Systems: []string{"errand"}, Rounds: 1}, Options{Rounds: 3}, one)
	if len(order) != 1 || table.Rounds != 1 {
		t.Errorf("got %v, and %d rounds in the table; want one round", order, table.Rounds)
	}
}

func TestWhatCannotBeHadIsNamed(t *testing.T) {
	order, table := pretend(t, scenario.Scenario{Systems: []string{"errand", "asynq"}}, Options{Rounds: 2, Against: []string{"asynq"}}, one)
	if want := []string{"errand/", "errand/"}; !slices.Equal(order, want) {
		t.Errorf("order: got %v, want %v", order, want)
	}
	want := result.Gap{Place: result.Place{System: "asynq"}, Reason: "redis-server is not installed"}
	if !slices.Equal(table.Gaps, []result.Gap{want}) {
		t.Errorf("gaps: got %+v, want %+v", table.Gaps, want)
	}
}

func TestWhatFailsIsNoFigure(t *testing.T) {
	_, table := pretend(t, scenario.Scenario{Systems: []string{"errand", "floor"}}, Options{Rounds: 1, Against: []string{"floor"}},
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
	o := Options{Scenarios: []scenario.Scenario{{Systems: []string{"errand", "asynq", "river-best"}}, {Systems: []string{"errand", "ideal"}}}, Against: []string{"river"}}
	var names []string
	for _, s := range o.Systems() {
		names = append(names, s.Name)
	}
	if want := []string{"errand", "river-best", "ideal"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
