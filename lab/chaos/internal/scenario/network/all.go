// Package network breaks connections: it ends and cuts them, makes them swallow what is sent, and
// makes them slow or too few.
package network

import "github.com/errandhq/errand/lab/chaos/internal/scenario"

// All lists the scenarios of this folder.
var All = []scenario.Scenario{terminate, halfOpen, cut, slowLink, pools, gateways}
