// Package scenario holds what is done to a system, a file each, in folders by what is broken:
// processes, network, servers, data, and in soak a little of all for hours.
//
// To add one, write a file with a variable of type [Scenario] and its Run function, and put the
// variable into the folder's All. Run has a [lab.Lab]: it starts processes (Crew, Enqueuer),
// strikes them or the server, tells the lab of each fault (Struck; Crew.Kill and Crew.Freeze do so
// themselves), lets the rest be worked off (Drain), and has it audited (Audit), which fills the row
// and demands that nothing is lost; what else is demanded it adds with Row.Check. What a worker's
// handler does is a function in package child, in a file of its own if it is more than a few lines,
// and in its table of handlers. Lab.Route puts something between a child and its server, such as a
// proxy of package wire. All that is random comes from Lab.Source; what differs in a short run,
// from lab.Size.
package scenario

import (
	"context"

	"github.com/errandhq/errand/lab/chaos/internal/harness"
)

// Scenario is a row of the table.
type Scenario struct {
	Number   int
	Name     string            // for -run
	What     string            // is done, for people
	System   string            // that it is for; "" means [system.Default]
	Peers    bool              // other systems than errand can be put through it, too
	Alone    bool              // what it measures hangs on how much of the processor it gets
	Long     bool              // a short run leaves it out unless it is named
	Settings map[string]string // of the server, beyond [server.Durable]
	Disk     int64             // bytes of the server's own file system; 0 means that it has none
	Run      func(ctx context.Context, h *harness.Harness) error
}
