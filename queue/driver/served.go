package driver

import (
	"context"
	"database/sql"
	"time"

	"github.com/errandhq/errand/queue"
)

// Checker is a backend that can tell whether it is able to serve.
type Checker interface {
	// Check asks the database for the version of its schema. It changes nothing. It returns an error
	// if the database does not answer until ctx ends, and a [*queue.SetupError] if the schema is
	// missing, older than this program needs, or newer than it knows ([queue.ErrNewer]). It may be
	// called concurrently.
	Check(ctx context.Context) error
}

// Tabled is a backend whose jobs are in tables of a SQL database. Package ops asks that database
// what no other interface tells: locks, settings, the state of the server.
type Tabled interface {
	// Tables says where the tables are. It does not touch the database.
	Tables() Tables
}

// Tables says where the tables of a backend are.
type Tables struct {
	// DB is the backend's own handle. The caller of the backend's New closes it.
	DB *sql.DB
	// Dialect is "postgres" or "sqlite".
	Dialect string
	// Schema is the schema of the tables on PostgreSQL. On SQLite it is what their names begin with.
	Schema string
	// Version is the number of the newest migration that the program knows.
	Version int
	// Retention says how long ended jobs are kept, with its defaults.
	Retention queue.Retention
}

// Served is a backend whose jobs are in servers that are no SQL database, such as Redis. Package
// ops judges what they tell. The methods change nothing, and may be called concurrently.
type Served interface {
	// Servers asks all servers that the backend knows at once, and returns what they tell, ordered by
	// address. A server that does not answer within a second or two has an Err.
	Servers(ctx context.Context) ([]ServerRecord, error)
	// Leftovers returns what workers should have removed or taken back. It asks for a bounded number
	// of jobs.
	Leftovers(ctx context.Context) (Leftovers, error)
}

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
