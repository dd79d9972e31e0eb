// Package peer holds the job queues that are measured, each behind the same few
// operations, with the settings that its variant stands for.
package peer

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Peer is one job queue as one process uses it. Jobs are numbered: the number is
// what a job carries, so that it can be told afterwards that each ran once. Its
// methods may be called concurrently.
type Peer interface {
	// Install makes what the queue needs in an empty database.
	Install(ctx context.Context) error
	// Enqueue writes the jobs first to first+n-1 in one call, the fastest that
	// the system has for many jobs.
	Enqueue(ctx context.Context, first, n int) error
	// EnqueueOne writes one job in a call, and a transaction, of its own.
	EnqueueOne(ctx context.Context, number int) error
	// Work runs jobs until ctx ends, and then stops in good order. It calls handle
	// from many goroutines.
	Work(ctx context.Context, handle func(number int)) error
	// Unsettled says whether a job waits or runs. It is cheap, so that the end of a
	// measurement can be looked for by asking it.
	Unsettled(ctx context.Context) (bool, error)
	// Census counts the jobs.
	Census(ctx context.Context) (Census, error)
	Close() error
}

// Census says how the jobs ended.
type Census struct {
	Unsettled int // waiting or running
	Completed int // done, as rows that are kept or as the system's own counter has it
	Failed    int // given up, or to be tried again
}

// Transactor is a peer that enqueues in the caller's transaction.
type Transactor interface {
	// Transact writes a row of the application's in a transaction, and, if enqueue,
	// job number in the same.
	Transact(ctx context.Context, number int, enqueue bool) error
}

// Holder is a peer that enqueues in the caller's transaction, which then stays open.
type Holder interface {
	// EnqueueAndHold enqueues job number in a transaction and commits it after hold.
	EnqueueAndHold(ctx context.Context, number int, hold time.Duration) error
}

// Config is what a process needs to use a system.
type Config struct {
	System      string
	DSN         string
	Redis       string                   // host:port
	Node        string                   // the folder that [PrepareNode] made
	Concurrency int                      // of errand's worker; 0 means its default
	OnClaim     func(took time.Duration) // if not nil, told of each of errand's claims
}

// Server is what a system keeps its jobs in.
type Server int

// The servers.
const (
	None Server = iota
	Postgres
	Redis
	SQLite // a file
)

// System is a row of the tables: a job queue in one variant.
type System struct {
	Name   string
	Family string // what -against names
	About  string // the settings, for people
	Server Server
	Node   bool // its worker is a program for Node, with graphile-worker
	Keeps  bool // what is done can be counted afterwards
	// Share is the part of the jobs that a drain gives it: what is slow would
	// otherwise take minutes. 0 means all.
	Share float64
	// Workers is how many processes its own authors' benchmark takes; 0 means 1.
	Workers int

	open func(ctx context.Context, c Config) (Peer, error)
}

// Systems are all there are, in the order of the tables.
var Systems = []System{
	{Name: "errand", Family: "errand", About: "pgx/v5/stdlib, defaults; Concurrency 100 in drains", Server: Postgres, Keeps: true, open: openErrand},
	{Name: "errand-pq", Family: "errand", About: "the same by lib/pq", Server: Postgres, Keeps: true, open: openErrandPQ},
	{Name: "errand-delete", Family: "errand", About: "the same with Retention.Completed below 0: what is done is not kept", Server: Postgres, open: openErrandDelete},
	{Name: "floor", Family: "floor", About: "hand-written SQL on two connections, 1,000 rows a statement, no handler", Server: Postgres, Keeps: true, open: openFloor},
	{Name: "river-best", Family: "river", About: "River 0.51, riverpgxv5, its benchmark's settings: MaxWorkers 2000, FetchCooldown 2 ms, FetchPollInterval 20 ms", Server: Postgres, Keeps: true, open: openRiverBest},
	{Name: "river-default", Family: "river", About: "River 0.51, riverpgxv5, defaults; MaxWorkers 100", Server: Postgres, Keeps: true, Share: 0.05, open: openRiverDefault},
	{Name: "asynq", Family: "asynq", About: "asynq 0.26, Concurrency 100, a Redis that writes nothing to disk", Server: Redis, Keeps: true, Share: 0.3, open: openAsynq},
	{Name: "graphile-best", Family: "graphile", About: "graphile-worker 0.17, its benchmark's settings: concurrentJobs 24, localQueue 500, batched completion; 2 processes", Server: Postgres, Node: true, Workers: 2, open: openGraphile},
	{Name: "graphile-default", Family: "graphile", About: "graphile-worker 0.17, defaults: concurrentJobs 1", Server: Postgres, Node: true, Share: 0.05, open: openGraphile},
	{Name: "errand-sqlite", Family: "errand", About: "backend/sqlite, defaults; Concurrency 100 in drains", Server: SQLite, Keeps: true, open: openErrandSQLite},
	{Name: "floor-sqlite", Family: "floor", About: "hand-written SQL on one connection, prepared, 1,000 rows a claim and a settling, no handler", Server: SQLite, Keeps: true, open: openFloorSQLite},
	{Name: "river-sqlite", Family: "river", About: "River 0.51, riversqlite 0.49, one connection as it advises, its benchmark's settings: MaxWorkers 2000, FetchCooldown 2 ms, FetchPollInterval 20 ms", Server: SQLite, Keeps: true, Share: 0.1, open: openRiverSQLite},
	{Name: "goqite", Family: "goqite", About: "goqite 0.3.1, one connection as in its examples; Receive and Delete from 2 goroutines, which is faster than its job runner; batches in one transaction", Server: SQLite, Share: 0.01, open: openGoqite},
	{Name: "ideal", Family: "ideal", About: "the handler alone on as many goroutines, no queue"},
}

// Families are the values of -against.
func Families() []string {
	var names []string
	for _, s := range Systems {
		if !slices.Contains(names, s.Family) && s.Family != "errand" && s.Family != "ideal" {
			names = append(names, s.Family)
		}
	}
	return names
}

// Named returns the system of that name. It panics where there is none: names are
// written in this program.
func Named(name string) System {
	for _, s := range Systems {
		if s.Name == name {
			return s
		}
	}
	panic("peer: no system " + name)
}

// Open connects to the system that c names, as far as that can be told without
// its tables.
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

// Program is the command that does a part of what is measured of the system that c names, or nil
// where this program does it.
func (c Config) Program(part string) []string {
	if Named(c.System).Node && part == "work" {
		return nodeProgram(c.Node)
	}
	return nil
}

const (
	// poolSize is how many connections to Postgres each system may hold, and keep: more
	// than any scenario has goroutines that use them at once.
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
