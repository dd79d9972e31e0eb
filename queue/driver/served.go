package driver

import (
	"time"

	"github.com/errandhq/errand/queue"
)

// ServerRecord is what a server tells about itself.
type ServerRecord struct {
	Addr string // host:port
	// Err is why the server tells nothing. All below is zero then.
	Err error
	// Info is what the server tells about its state: the fields of Redis' INFO, and of a cluster the
	// fields of CLUSTER INFO.
	Info map[string]string
	// Config is settings of the server that Info does not have, of Redis' CONFIG GET.
	Config map[string]string
	// Denied are the rights that the program's user lacks, such as "+config|get".
	Denied []string
	// HasCode is whether the server has the code that the backend calls in it, in this program's
	// version.
	HasCode bool
	// Ahead is how far the server's clock is ahead of the local one. It may be off by half of Took.
	Ahead time.Duration
	// Took is how long the fastest of some short answers took.
	Took time.Duration
}

// Leftovers are jobs that workers should have removed or taken back.
type Leftovers struct {
	// Retention says how long ended jobs are kept, with its defaults.
	Retention queue.Retention
	// Completed is for how long the job has been kept that was completed first. 0 means none.
	Completed time.Duration
	// Dead is the same for the job that died or was cancelled first.
	Dead time.Duration
	// Leases is how many running jobs have a lease that expired long ago: four times as long as the
	// lease has lasted.
	Leases int
}
