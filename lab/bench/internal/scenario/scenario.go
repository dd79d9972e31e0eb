// Package scenario holds the measurements: what is measured, for which systems, and errand's
// targets.
package scenario

import (
	"context"

	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// Scenario is one table of the report.
type Scenario struct {
	Name    string
	Title   string
	Note    string   // what exactly is measured
	Cases   []string // measured one after the other; none means a single case without a name
	Systems []string
	Base    string // the system that the others are compared with; "" means errand
	Rounds  int    // the most rounds that it gets; 0 means as many as -rounds
	Extra   bool   // measured only when it is named
	Series  bool   // its cases are points in time
	Chart   []result.Metric
	Targets []result.Target

	// Prepare, if not nil, is called once before the rounds.
	Prepare func(ctx context.Context, h *harness.Harness) error
	// Measure measures one system in one case.
	Measure func(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error)
}

// All lists the scenarios, in the order of the report.
var All = []Scenario{
	drain, processes, handlers, enqueues, singles, transactions, latencies, remotes, heads, long, scheduled, ordered, limits, smallTenant, cancels, schedules, rates, pinned, plans, sqliteDrain, sqliteEnqueue, onRedis, soak, dashboard,
}

// Find returns the scenario of that name.
func Find(name string) (s Scenario, ok bool) {
	for _, s := range All {
		if s.Name == name {
			return s, true
		}
	}
	return s, false
}

// Table returns the empty table of s.
func (s Scenario) Table() *result.Table {
	return &result.Table{Scenario: s.Name, Title: s.Title, Note: s.Note, Baseline: s.Base, Targets: s.Targets, Series: s.Series, Chart: s.Chart}
}

// atLeast is the target that system reaches at least factor times the value of over.
func atLeast(factor float64, m result.Metric, system, over string) result.Target {
	return result.Target{Of: result.Place{System: system}, Over: &result.Place{System: over}, Metric: m, Factor: factor}
}

// atMost is the target that system needs at most factor times the value of over.
func atMost(factor float64, m result.Metric, system, over string) result.Target {
	t := atLeast(factor, m, system, over)
	t.Most = true
	return t
}

// forCase is the target t in the case of that name.
func forCase(name string, t result.Target) result.Target {
	t.Of.Case = name
	if t.Over != nil {
		over := *t.Over
		over.Case = name
		t.Over = &over
	}
	return t
}

// errandAtMost is the target that errand's value in a case is at most limit.
func errandAtMost(limit float64, m result.Metric, name string) result.Target {
	return result.Target{Of: result.Place{Case: name, System: result.Baseline}, Metric: m, Most: true, Factor: limit}
}

// errandAgainst is the target that errand's value in the case name is at least factor times its
// value in the case over; with most, at most that.
func errandAgainst(factor float64, most bool, m result.Metric, name, over string) result.Target {
	return result.Target{
		Of:     result.Place{Case: name, System: result.Baseline},
		Over:   &result.Place{Case: over, System: result.Baseline},
		Metric: m, Most: most, Factor: factor,
	}
}
