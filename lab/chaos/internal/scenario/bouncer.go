package scenario

import "github.com/errandhq/errand/lab/chaos/internal/system"

// throughBouncer are the scenarios that make sense with PgBouncer between errand and the server,
// again. What the lab itself does goes to the server directly.
func throughBouncer() (pooled []Scenario) {
	for _, s := range []Scenario{sigkill, freeze, once, terminate, crash, isolation, limits, disk, sigterm} {
		s.Long = s.Number != sigkill.Number && s.Number != once.Number && s.Number != terminate.Number
		s.Number, s.Name, s.What = 14, "bouncer-"+s.Name, s.What+"; through PgBouncer in transaction mode"
		s.Peers, s.System = false, system.Pooled
		pooled = append(pooled, s)
	}
	return pooled
}
