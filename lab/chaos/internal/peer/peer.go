// Package peer holds the job queues that chaos breaks, errand among them. Each has the same few
// operations.
package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Peer is one job queue, as one process uses it. Jobs have numbers, and carry nothing else. The
// methods may be called concurrently.
type Peer interface {
	// Install makes what the queue needs in an empty database.
	Install(ctx context.Context) error
	// Enqueue writes jobs in one call. nil is the acknowledgement: none of them may be lost from
	// then on. After an error it is unknown whether they were written.
	Enqueue(ctx context.Context, kind Kind, numbers ...int) error
	// Work is a worker: it runs jobs until ctx ends, and then stops gracefully.
	Work(ctx context.Context, w Worker, handle Handler) error
	// Jobs reads the jobs in the table. If worker is not "", it reads only the jobs that run there.
	Jobs(ctx context.Context, worker string) ([]Job, error)
	// Live counts the jobs that have not ended.
	Live(ctx context.Context) (int, error)
	Close() error
}

// Kind is the kind of a job. It says how the job's work and its settling belong together.
type Kind string

// The kinds.
const (
	// Plain jobs are settled after their work.
	Plain Kind = "chaos.plain"
	// InTx jobs do their work in the transaction that settles them.
	InTx Kind = "chaos.tx"
	// Poison jobs are like Plain ones, but may be started only as often as PoisonAttempts says.
	Poison Kind = "chaos.poison"
)

// PoisonAttempts returns how often a Poison job may be started: 3 times, or 5 if its number is odd.
func PoisonAttempts(number int) int { return 3 + number%2*2 }

// Worker configures a worker. A zero field means the system's default.
type Worker struct {
	Name        string
	Concurrency int
	Lease       time.Duration // after it, jobs of a dead worker go to others
	Grace       time.Duration // for handlers, when the worker stops
	Idle        time.Duration // how long the pool keeps an idle connection; 0 means for ever. Only errand's.
	Poll        time.Duration // how often to claim without a notification. Only errand's.
	SettleFirst bool          // settle InTx jobs before their work instead of after it
	Keep        time.Duration // how long completed jobs stay in the table; below 0 they do not. Some systems ignore it.
	// Detached keeps the transactions of InTx jobs running after the handler's context has ended.
	// Then only the system's own check of the holder keeps a late one from being committed.
	Detached bool
	// RetryAfter is the delay that Plain jobs ask for when they want a retry. 0 means that they
	// leave it to the system. Only errand's.
	RetryAfter time.Duration

	// Lost, if not nil, is called when the system tells the worker that it has lost a job that it
	// runs or settles. Some systems never do.
	Lost func(number, attempt int) `json:"-"`
	// Claimed, if not nil, is called after each claim that returned jobs. Only errand's.
	Claimed func(took time.Duration, jobs int) `json:"-"`
}

// Handler does the work of one run of a job, and says how the run ended.
type Handler func(ctx context.Context, run Run) Action

// Run is one run of a job.
type Run struct {
	Number  int
	Attempt int
	Poison  bool // the job is of the kind Poison
	// Claimed is when the claim of the job began. Only errand's, for jobs of a group.
	Claimed time.Time
	// Text, if not nil, may be set by the handler to the text of the error of Retry or Dead.
	Text *string
	// Exec runs a statement in the transaction that settles the job. It is nil unless the job is
	// InTx.
	Exec func(ctx context.Context, query string, args ...any) error
}

// Action is how a run ended.
type Action int

// The actions, which each system has.
const (
	Done    Action = iota
	Retry          // an error: run it again
	Dead           // give up
	Snooze         // run it again later, without an error
	Actions        // the number of actions
)

func (v Action) String() string { return [...]string{"done", "retry", "dead", "snooze"}[v] }

// errorOf returns the error by which a handler reports an action, or nil for Done. A system has its
// own errors for the end of a job (giveUp) and for a later run (snooze).
func errorOf(v Action, text string, giveUp func(error) error, snooze func(time.Duration) error) error {
	switch v {
	case Retry:
		return errors.New(cmp.Or(text, "to be tried again"))
	case Dead:
		return giveUp(errors.New(cmp.Or(text, "given up")))
	case Snooze:
		return snooze(time.Hour)
	}
	return nil
}

// State is the state of a job.
type State string

// The states.
const (
	Waiting State = "waiting" // for its first run, or for another
	Running State = "running"
	Ended   State = "done"
	GivenUp State = "dead"
)

// Open reports whether the job has not ended.
func (s State) Open() bool { return s == Waiting || s == Running }

// Job is a job as the table has it.
type Job struct {
	Number  int
	State   State
	Attempt int // how often it was started
	Worker  string
	Reason  string    // why it is dead
	EndedAt time.Time // zero unless it has ended
	Row     string    // its columns, except those that a heartbeat changes
}

// System describes a system.
type System struct {
	Name string
	Text string // its version and settings, for people
	// Slow is how much longer than a lease it may take, by the system's own rules, until a job of a
	// dead worker runs again.
	Slow time.Duration
	// Competitor says that it is not errand. A criterion that it misses is shown, but the program
	// does not fail.
	Competitor bool
	// Pooled says that it connects through PgBouncer.
	Pooled bool
	// File says that its database is a file, and the DSN the path. Its Peer is then also a [File].
	File bool
	// Cluster says that it is on a Redis Cluster. Its Peer is then also an [Engine].
	Cluster bool

	open func(ctx context.Context, dsn string, connections int) (Peer, error)
}

// The names of some systems. Default is the one of a scenario that names none. Pooled is errand
// through a pooler, so it does not listen, and PooledPQ the same over lib/pq. Remote is errand
// behind gateways: with a DSN of the database it is the same as Default. Redis waits for a replica
// in each Enqueue, RedisAsync does not.
const (
	Default    = "errand"
	Pooled     = "errand via PgBouncer"
	PooledPQ   = "errand over pq via PgBouncer"
	Remote     = "errand via gateways"
	Redis      = "errand on Redis, Durable"
	RedisAsync = "errand on Redis"
)

// Engine is a system that says what keeps its jobs, because that is no PostgreSQL.
type Engine interface {
	// Engine returns the name and version of the server or library.
	Engine(ctx context.Context) (string, error)
}

// Systems lists all systems.
var Systems = []System{
	{Name: Default, Text: "pgx/v5/stdlib, defaults but for Concurrency, Lease and Grace", open: openPostgres},
	{Name: "sqlite", Text: "errand on SQLite, modernc.org/sqlite, defaults but for Concurrency, Lease and Grace", File: true, open: openSQLite},
	{Name: Pooled, Text: "errand without Options.Listen, default_query_exec_mode=exec, PgBouncer in transaction mode", Pooled: true, open: openPooled},
	{Name: PooledPQ, Text: "errand over lib/pq without Options.Listen and binary_parameters, PgBouncer in transaction mode", Pooled: true, open: openPooledPQ},
	{Name: Remote, Text: "backend/remote with a Timeout of 1.5 s; gateways with a Reclaim of 1 s over pgx/v5/stdlib", open: openRemote},
	{Name: Redis, Text: "rueidis with ConnWriteTimeout 3 s, Options.Durable 1, defaults but for Partitions, Spread, Concurrency and Lease", Cluster: true, open: openRedis},
	{Name: RedisAsync, Text: "rueidis with ConnWriteTimeout 3 s, defaults but for Partitions, Spread, Concurrency and Lease", Cluster: true, open: openRedisAsync},
	{
		Name: "river", Text: "River 0.51, riverpgxv5, defaults but for MaxWorkers, and JobTimeout and RescueStuckJobsAfter, which are the lease",
		Slow: 60 * time.Second, Competitor: true, open: openRiver,
	},
}

// Named finds a system.
func Named(name string) (System, bool) {
	for _, s := range Systems {
		if s.Name == name {
			return s, true
		}
	}
	return System{}, false
}

// Open connects to a system, with at most this many connections.
func Open(ctx context.Context, name, dsn string, connections int) (Peer, error) {
	system, ok := Named(name)
	if !ok {
		return nil, fmt.Errorf("no system %q", name)
	}
	s, err := system.open(ctx, dsn, connections)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}
