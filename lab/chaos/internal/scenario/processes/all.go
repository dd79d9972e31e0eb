// Package processes breaks worker processes: it kills, freezes and stops them, and gives them wrong
// clocks.
package processes

import "github.com/errandhq/errand/lab/chaos/internal/scenario"

// All lists the scenarios of this folder.
var All = []scenario.Scenario{sigkill, freeze, once, poison, clocks, sigterm, sqlite, giveBack, schedules, ordered, cancel, limits, rates}
