// Package system holds the job queues that are put to the test, each behind the same
// few verbs.
package peer

import (
	"context"
	"fmt"
	"time"
)

// System is one job queue as one process uses it. Jobs are numbered: the number is all
// that a job carries. Its methods may be called concurrently.
type Peer interface {
	// Install makes what the queue needs in an empty database.
	Install(ctx context.Context) error
	// Enqueue writes jobs in one call. nil is the acknowledgement: from then on none of
	// them may be lost. Otherwise it is unknown whether they were written.
	Enqueue(ctx context.Context, kind Kind, numbers ...int) error
	// Work is a worker: it runs jobs until ctx ends, and then stops in good order.
	Work(ctx context.Context, w Worker, handle Handler) error
	// Jobs reads the jobs in the table: all, or, where worker is not "", those that it
	// says are running there.
	Jobs(ctx context.Context, worker string) ([]Job, error)
	// Live counts the jobs that have not ended.
	Live(ctx context.Context) (int, error)
	Close() error
}

// Kind says how a job's work and its end belong together.
type Kind string

// The kinds.
const (
	// Plain jobs are settled after their work.
	Plain Kind = "chaos.plain"
	// InTx jobs do their work in the transaction that settles them.
	InTx Kind = "chaos.tx"
	// Poison jobs are Plain ones that may be started as often as PoisonAttempts says.
	Poison Kind = "chaos.poison"
)

// PoisonAttempts is how often a Poison job may be started: 3 times, or 5 where its number is
// odd.
func PoisonAttempts(number int) int { return 3 + number%2*2 }

// Worker says how a process works. A zero field is the system's default.
type Worker struct {
	Name        string
	Concurrency int
	Lease       time.Duration // after which the jobs of a worker that is gone are given to others
	Grace       time.Duration // for handlers, when the worker is to stop
	Idle        time.Duration // how long a connection may lie idle until the pool closes it; 0 is for ever. Errand's only.
	Poll        time.Duration // how often to look for jobs when nothing says that there are some; errand's alone
	SettleFirst bool          // InTx jobs are settled before their work instead of after it
	Keep        time.Duration // how long jobs that are done stay in the table; below 0 they do not. Not every system heeds it.
	// Detached has the transactions of InTx jobs go on although the handler's context
	// has ended, so that nothing but the system's own check of who holds the job keeps a
	// late one from being committed.
	Detached bool
	// RetryAfter is how long Plain jobs that are to be tried again say that they want to
	// wait; 0 means that they leave it to the system. Errand's only.
	RetryAfter time.Duration

	// Lost, if not nil, is called when the system tells the worker that a job that it
	// ran, or was about to settle, is not its own any more. Not every system does.
	Lost func(number, attempt int) `json:"-"`
	// Claimed, if not nil, is told how long each claim took that brought jobs. Errand's only.
	Claimed func(took time.Duration, jobs int) `json:"-"`
}

// Handler does the work of one run of a job, and says what came of it.
type Handler func(ctx context.Context, run Run) Action

// Run is one run of a job.
type Run struct {
	Number  int
	Attempt int
	Poison  bool // the job is of the kind Poison
	// Text, if not nil, may be set by the handler, to the text of the error that comes with
	// Retry or Dead.
	Text *string
	// Exec runs a statement in the transaction that settles the job. It is nil unless
	// the job is InTx.
	Exec func(ctx context.Context, query string, args ...any) error
}

// Verb is what came of a run.
type Action int

// The finishing verbs, as each system has them.
const (
	Done    Action = iota
	Retry          // an error: try again
	Dead           // give up
	Snooze         // not yet: look at it again later
	Actions        // how many there are
)

func (v Action) String() string { return [...]string{"done", "retry", "dead", "snooze"}[v] }

// State is where a job is in its life.
type State string

// The states.
const (
	Waiting State = "waiting" // to be run, or run again
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
	Reason  string    // of one that was given up
	EndedAt time.Time // zero unless it has ended
	Row     string    // its columns, but for those that a heartbeat changes
}

// About describes a system.
type System struct {
	Name string
	Text string // its version and settings, for people
	// Slow says how much longer than a lease it may take, by the system's own rules,
	// until a job of a worker that is gone runs again.
	Slow time.Duration
	// Peer says that it is not errand: what does not hold of it is shown, but not held against
	// the program.
	Competitor bool
	// Pooled says that its connections are PgBouncer's.
	Pooled bool
	// File says that its database is a file, whose path is the DSN, and not on a server.
	// Then it is a [File], too.
	File bool

	open func(ctx context.Context, dsn string, connections int) (Peer, error)
}

// The names of some systems. Default is that of a scenario that names none; Pooled is errand again,
// which does not listen: its connections are a pooler's.
const (
	Default = "errand"
	Pooled  = "errand via PgBouncer"
)

// Systems are all there are.
var Systems = []System{
	{Name: Default, Text: "pgx/v5/stdlib, defaults but for Concurrency, Lease and Grace", open: openPostgres},
	{Name: "sqlite", Text: "errand on SQLite, modernc.org/sqlite, defaults but for Concurrency, Lease and Grace", File: true, open: openSQLite},
	{Name: Pooled, Text: "errand without Options.Listen, default_query_exec_mode=exec, PgBouncer in transaction mode", Pooled: true, open: openPooled},
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

// Open connects to a system, with as many connections as that at most.
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
