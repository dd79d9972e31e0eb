// Package network breaks connections: it ends them, cuts them, lets them swallow what is sent, and
// lets them be slow or too few.
package network

import "github.com/errandhq/errand/lab/chaos/internal/scenario"

// All are the scenarios of this folder.
var All = []scenario.Scenario{terminate, halfOpen, cut, slowLink, pools}
