// Package soak runs for two hours, with the faults of the other folders in random order.
package soak

import "github.com/errandhq/errand/lab/chaos/internal/scenario"

// All lists the scenarios of this folder.
var All = []scenario.Scenario{soak}
