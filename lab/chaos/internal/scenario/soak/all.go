// Package soak goes on for two hours, with the faults of the other folders at random.
package soak

import "github.com/errandhq/errand/lab/chaos/internal/scenario"

// All are the scenarios of this folder.
var All = []scenario.Scenario{soak}
