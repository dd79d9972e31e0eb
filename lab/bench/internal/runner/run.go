package runner

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/progress"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/bench/internal/scenario"
	"github.com/errandhq/errand/lab/bench/internal/server"
)

// Options say what to measure.
type Options struct {
	Scenarios []scenario.Scenario
	Against   []string // families of systems, besides errand's own
	Rounds    int
	Scale     float64 // factor for numbers of jobs and for durations
	Soak      time.Duration
	Progress  io.Writer
}

// Systems returns the systems that the run measures, in the order of the tables.
func (o Options) Systems() []peer.System {
	var systems []peer.System
	for _, s := range peer.Systems {
		named := func(x scenario.Scenario) bool { return slices.Contains(x.Systems, s.Name) }
		if o.takes(s) && slices.ContainsFunc(o.Scenarios, named) {
			systems = append(systems, s)
		}
	}
	return systems
}

func (o Options) takes(s peer.System) bool {
	return s.Family == "errand" || s.Family == "ideal" || slices.Contains(o.Against, s.Family)
}

// Run measures all scenarios. A measurement that fails is a gap in its table. An error ends the
// run, and the tables then hold what was measured before it.
func Run(ctx context.Context, o Options, servers *server.Servers) ([]*result.Table, error) {
	var tables []*result.Table
	for _, s := range o.Scenarios {
		t := s.Table()
		tables = append(tables, t)
		r := runner{Options: o, scenario: s, table: t, harness: &harness.Harness{Servers: servers, Scale: o.Scale, Soak: o.Soak}}
		if err := r.run(ctx); err != nil {
			return tables, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return tables, nil
}

// runner measures one scenario.
type runner struct {
	Options
	scenario scenario.Scenario
	table    *result.Table
	harness  *harness.Harness
	bar      *progress.Bar // of the scenario's turns
}

func (r *runner) run(ctx context.Context) error {
	turns := r.turns()
	if r.scenario.Prepare != nil {
		fmt.Fprintf(r.Progress, "%s: preparing\n", r.scenario.Name)
		if err := r.scenario.Prepare(ctx, r.harness); err != nil {
			return err
		}
	}
	rounds := r.Rounds
	if r.scenario.Rounds > 0 && r.scenario.Rounds < rounds {
		rounds = r.scenario.Rounds
		r.table.Rounds = rounds
	}
	r.bar = progress.New(r.Progress, r.scenario.Name, rounds*len(turns))
	defer r.bar.Close()
	for round := range rounds {
		for _, turn := range turns {
			r.take(ctx, round, turn)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		// The next round takes the systems in reverse order. So what grows or shrinks over time
		// favours none of them.
		slices.Reverse(turns)
	}
	return nil
}

// turn is one system in one case.
type turn struct {
	system peer.System
	name   string
}

// turns returns the turns of a round. A system that is not available is a gap.
func (r *runner) turns() []turn {
	var turns []turn
	for _, name := range r.cases() {
		for _, systemName := range r.scenario.Systems {
			system := peer.Named(systemName)
			if !r.takes(system) {
				continue
			}
			if err := r.harness.Missing(system); err != nil {
				r.table.Miss(result.Gap{Place: result.Place{System: system.Name}, Reason: err.Error()})
				continue
			}
			turns = append(turns, turn{system, name})
		}
	}
	return turns
}

func (r *runner) cases() []string {
	if len(r.scenario.Cases) == 0 {
		return []string{""}
	}
	return r.scenario.Cases
}

// take measures one turn and puts it into the table.
func (r *runner) take(ctx context.Context, round int, t turn) {
	place := result.Place{Case: t.name, System: t.system.Name}
	what := fmt.Sprintf("%s: round %d: %s", r.scenario.Name, round+1, place)
	r.bar.Describe(what)
	defer r.bar.Add(1)
	from := time.Now()
	figures, err := r.scenario.Measure(ctx, r.harness, t.system, t.name)
	if err != nil {
		fmt.Fprintf(r.bar, "%s: FAILED: %v\n", what, err)
		r.table.Miss(result.Gap{Place: place, Reason: err.Error(), Failed: true})
		return
	}
	for i := range figures {
		if figures[i].Case == "" {
			figures[i].Case = t.name
		}
	}
	fmt.Fprintf(r.bar, "%s: %s (%.0f s)\n", what, summary(figures), time.Since(from).Seconds())
	r.table.Add(round, t.system.Name, figures...)
}

// summary returns the first figures, for the progress.
func summary(figures []result.Figure) string {
	var words []string
	for _, f := range figures[:min(len(figures), 3)] {
		words = append(words, fmt.Sprintf("%s %.4g %s", f.Metric.Name, f.Value, f.Metric.Unit))
	}
	return strings.Join(words, ", ")
}
