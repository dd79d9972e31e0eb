// Package peer holds the job queues that are measured, errand among them. Each has the same few
// operations, and the settings of its variant.
package peer

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Peer is one job queue, as one process uses it. A job carries its number, so that a drain can
// check that each job ran once. The methods may be called concurrently.
type Peer interface {
	// Install makes what the queue needs in an empty database.
	Install(ctx context.Context) error
	// Enqueue writes the jobs first to first+n-1 in one call, the fastest way that the system has
	// for many jobs.
	Enqueue(ctx context.Context, first, n int) error
	// EnqueueOne writes one job in its own call and transaction.
	EnqueueOne(ctx context.Context, number int) error
	// Work runs jobs until ctx ends, and then stops gracefully. It calls handle from many
	// goroutines.
	Work(ctx context.Context, handle func(number int)) error
	// Unsettled reports whether a job waits or runs. It is cheap, because it is polled for the end
	// of a measurement.
	Unsettled(ctx context.Context) (bool, error)
	// Census counts the jobs.
	Census(ctx context.Context) (Census, error)
	Close() error
}

// Census says in what states the jobs are.
type Census struct {
	Unsettled int // waiting or running
	Completed int // done: as rows that are kept, or as the system counts them
	Failed    int // dead, or waiting for a retry
}

// Transactor is a peer that enqueues in the caller's transaction.
type Transactor interface {
	// Transact writes one row of the application's in a transaction. If enqueue is true, it also
	// enqueues job number in it.
	Transact(ctx context.Context, number int, enqueue bool) error
}

// Holder is a peer that enqueues in the caller's transaction and keeps it open.
type Holder interface {
	// EnqueueAndHold enqueues job number in a transaction and commits it after hold.
	EnqueueAndHold(ctx context.Context, number int, hold time.Duration) error
}

// Taker is a peer whose jobs can be claimed and settled one by one, without a worker.
type Taker interface {
	// Take claims one job and settles it as completed, in two calls. It returns false if there is
	// none.
	Take(ctx context.Context) (bool, error)
}

// Config is what a process needs to use a system.
type Config struct {
	System      string
	DSN         string
	Redis       []string                 // host:port of each node
	Node        string                   // the folder of [NodeProgram.Prepare]
	Gateway     string                   // URL of a gateway, for errand-remote; "" means that it uses the DSN
	Workers     int                      // how many workers of errand's Work is; 0 means one
	Concurrency int                      // of errand's worker; 0 means its default
	OnClaim     func(took time.Duration) // if not nil, called after each claim of errand's
}

// Server is what a system keeps its jobs in.
type Server int

// The servers.
const (
	None Server = iota
	Postgres
	Redis        // one node
	RedisCluster // three masters, each with a replica
	SQLite       // a file
)

// System is a row of the tables: a job queue in one variant.
type System struct {
	Name   string
	Family string // the value for -against
	About  string // the settings, for people
	Server Server
	Node   *NodeProgram // if not nil, does parts of the measurement
	Keeps  bool         // it counts or keeps completed jobs
	// Share is the part of a drain's jobs that the system gets, because a slow system would take
	// minutes for all. 0 means all.
	Share float64
	// Workers is how many processes its authors' own benchmark uses. 0 means 1.
	Workers int

	open func(ctx context.Context, c Config) (Peer, error)
}

// Systems lists all systems, in the order of the tables.
var Systems = []System{
	{Name: "errand", Family: "errand", About: "pgx/v5/stdlib, defaults; Concurrency 100 in drains", Server: Postgres, Keeps: true, open: openErrand},
	{Name: "errand-pq", Family: "errand", About: "the same by lib/pq", Server: Postgres, Keeps: true, open: openErrandPQ},
	{Name: "errand-delete", Family: "errand", About: "errand with Retention.Completed below 0: what is done is not kept; Concurrency 100 in drains", Server: Postgres, open: openErrandDelete},
	{Name: "errand-remote", Family: "errand", About: "backend/remote, defaults, over HTTP/1.1 to a gateway in a process of its own, which has errand's settings", Server: Postgres, Keeps: true, open: openErrandRemote},
	{Name: "floor", Family: "floor", About: "hand-written SQL on two connections, 1,000 rows a statement, no handler", Server: Postgres, Keeps: true, open: openFloor},
	{Name: "river-best", Family: "river", About: "River 0.51, riverpgxv5, its benchmark's settings: MaxWorkers 2000, FetchCooldown 2 ms, FetchPollInterval 20 ms", Server: Postgres, Keeps: true, open: openRiverBest},
	{Name: "river-default", Family: "river", About: "River 0.51, riverpgxv5, defaults; MaxWorkers 100", Server: Postgres, Keeps: true, Share: 0.05, open: openRiverDefault},
	{Name: "asynq", Family: "asynq", About: "asynq 0.26, Concurrency 100, a Redis that writes nothing to disk", Server: Redis, Keeps: true, Share: 0.3, open: openAsynq},
	{Name: "asynq-best", Family: "asynq", About: "asynq 0.26, 4 servers of Concurrency 25 in its process, TaskCheckInterval 1 ms", Server: Redis, Keeps: true, Share: 0.3, open: openAsynqBest},
	{Name: "asynq-cluster", Family: "asynq", About: "asynq-best on the cluster", Server: RedisCluster, Keeps: true, Share: 0.3, open: openAsynqBest},
	{Name: "bullmq", Family: "bullmq", About: "BullMQ 6.7, ioredis 5.11, one worker of concurrency 100 in its process, removeOnComplete; batches by addBulk", Server: Redis, Node: bullMQ, Share: 0.3, open: openBullMQ},
	{Name: "bullmq-cluster", Family: "bullmq", About: "bullmq on the cluster, its keys on one node, as it needs them", Server: RedisCluster, Node: bullMQ, Share: 0.3, open: openBullMQ},
	{Name: "errand-redis", Family: "errand", About: "backend/redis on one node, Retention.Completed below 0: completed jobs are deleted, as asynq does by default; Concurrency 100 in drains", Server: Redis, open: openErrandRedis},
	{Name: "errand-redis-cluster", Family: "errand", About: "errand-redis on the cluster, Spread 8", Server: RedisCluster, open: openErrandRedisCluster},
	{Name: "graphile-best", Family: "graphile", About: "graphile-worker 0.17, its benchmark's settings: concurrentJobs 24, localQueue 500, batched completion; 2 processes", Server: Postgres, Node: graphileWorker, Workers: 2, open: openGraphile},
	{Name: "graphile-default", Family: "graphile", About: "graphile-worker 0.17, defaults: concurrentJobs 1", Server: Postgres, Node: graphileWorker, Share: 0.05, open: openGraphile},
	{Name: "errand-sqlite", Family: "errand", About: "backend/sqlite, defaults; Concurrency 100 in drains", Server: SQLite, Keeps: true, open: openErrandSQLite},
	{Name: "floor-sqlite", Family: "floor", About: "hand-written SQL on one connection, prepared, 1,000 rows a claim and a settling, no handler", Server: SQLite, Keeps: true, open: openFloorSQLite},
	{Name: "river-sqlite", Family: "river", About: "River 0.51, riversqlite 0.49, one connection as it advises, its benchmark's settings: MaxWorkers 2000, FetchCooldown 2 ms, FetchPollInterval 20 ms", Server: SQLite, Keeps: true, Share: 0.1, open: openRiverSQLite},
	{Name: "goqite", Family: "goqite", About: "goqite 0.3.1, one connection as in its examples; Receive and Delete from 2 goroutines, which is faster than its job runner; batches in one transaction", Server: SQLite, Share: 0.01, open: openGoqite},
	{Name: "ideal", Family: "ideal", About: "the handler alone on as many goroutines, no queue"},
}

// Families returns the values of -against.
func Families() []string {
	var names []string
	for _, s := range Systems {
		if !slices.Contains(names, s.Family) && s.Family != "errand" && s.Family != "ideal" {
			names = append(names, s.Family)
		}
	}
	return names
}

// Named returns the system of that name. It panics if there is none: the names are constants of
// this program.
func Named(name string) System {
	for _, s := range Systems {
		if s.Name == name {
			return s
		}
	}
	panic("peer: no system " + name)
}

// Open connects to the system that c names. It does not need the system's tables.
func Open(ctx context.Context, c Config) (Peer, error) {
	s := Named(c.System)
	if s.open == nil {
		return nil, fmt.Errorf("%s: not a queue", s.Name)
	}
	p, err := s.open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return p, nil
}

const (
	// poolSize is how many connections to Postgres a system may open and keep. No scenario has as
	// many goroutines that use them at once.
	poolSize = 100
	// kind is the kind of every job.
	kind = "bench.order"
)

// order is what every job carries, for every system.
type order struct {
	Order int    `json:"order"`
	To    string `json:"to"`
}

func newOrder(number int) order { return order{Order: number, To: "alice@example.com"} }
