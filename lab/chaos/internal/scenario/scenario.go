// Package scenario defines what a scenario is. The scenarios are a file each, in folders by what
// they break: processes, network, servers, data, and soak, which does a little of all for hours.
//
// To add one, write a file with a variable of type [Scenario] and its Run function, and add the
// variable to the folder's All. Run gets a [harness.Harness]. With it Run starts processes (Crew,
// Enqueuer), strikes them or the server, and records each fault (RecordFault; Crew.Kill and
// Crew.Freeze do that themselves). Then it waits until no job is left (Drain) and audits (Audit).
// Audit fills the row and demands that nothing is lost. Run adds its other criteria with Row.Check.
//
// What a worker's handler does is a function of package child, in its table of handlers.
// Harness.Route puts something between a child and its server, for example a proxy of package wire.
// All random numbers are from Harness.Source. What is smaller in a short run is from
// [harness.Size].
package scenario

import (
	"context"

	"github.com/errandhq/errand/lab/chaos/internal/harness"
)

// Scenario is a row of the published table.
type Scenario struct {
	// Number is that of the table. Scenarios of the same kind share one. No folder has 14: package
	// runner gives it to the scenarios that it runs again through PgBouncer (all.go).
	Number   int
	Name     string            // for -run; unique
	What     string            // what it does, as the table has it
	System   string            // the system that it breaks; "" means [peer.Default]
	Peers    bool              // other systems than errand can run it, too
	Alone    bool              // its results depend on free CPU
	Long     bool              // left out of a short run, unless it is named
	Settings map[string]string // of the server, in addition to [server.Durable], or of a cluster's nodes
	Query    string            // added to the DSN of a cluster: see [peer.RedisDSN]
	Splits   bool              // the cluster's network can be parted
	Clocks   bool              // the clocks of the cluster's nodes can be set
	Disk     int64             // bytes of a file system for the server, or for each node, alone; 0 means none
	Run      func(ctx context.Context, h *harness.Harness) error
}
