package runner

import (
	"slices"
	"strconv"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/scenario/data"
	"github.com/errandhq/errand/lab/chaos/internal/scenario/network"
	"github.com/errandhq/errand/lab/chaos/internal/scenario/processes"
	"github.com/errandhq/errand/lab/chaos/internal/scenario/servers"
	"github.com/errandhq/errand/lab/chaos/internal/scenario/soak"
)

// All lists all scenarios, by number.
var All = slices.SortedStableFunc(slices.Values(slices.Concat(direct, throughBouncer())),
	func(a, b scenario.Scenario) int { return a.Number - b.Number })

// direct are the scenarios without PgBouncer.
var direct = slices.Concat(processes.All, network.All, servers.All, data.All, soak.All)

// Find returns the scenarios of a name or number.
func Find(name string) (found []scenario.Scenario) {
	for _, s := range All {
		if s.Name == name || strconv.Itoa(s.Number) == name {
			found = append(found, s)
		}
	}
	return found
}

// pooled names the scenarios that also run through PgBouncer. pooledShort names those of them that
// belong to a short run.
var (
	pooled      = []string{"sigkill", "freeze", "once", "terminate", "crash", "isolation", "limits", "disk", "sigterm"}
	pooledShort = []string{"sigkill", "once", "terminate"}
)

// throughBouncer returns the pooled scenarios, as number 14, one of them over lib/pq, too. The
// harness itself still connects to the server directly.
func throughBouncer() (again []scenario.Scenario) {
	for _, name := range pooled {
		s := direct[slices.IndexFunc(direct, func(s scenario.Scenario) bool { return s.Name == name })]
		s.Long = !slices.Contains(pooledShort, name)
		s.Number, s.Name, s.What = 14, "bouncer-"+s.Name, s.What+"; through PgBouncer in transaction mode"
		s.Peers, s.System = false, peer.Pooled
		again = append(again, s)
		if name == "sigkill" {
			s.Name, s.What, s.System = "bouncer-pq-"+name, s.What+", over lib/pq", peer.PooledPQ
			again = append(again, s)
		}
	}
	return again
}
