package queue

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/errandhq/errand/internal/check"
)

// DB runs statements. [*sql.DB], [*sql.Tx] and [*sql.Conn] are DBs, and so are the handles of sqlx,
// gorm and other libraries that embed them.
//
// A backend tells the handles apart by their methods: a transaction has Commit and Rollback, a pool
// has Conn, a connection has Raw, as in database/sql. An application's own wrapper should have the
// methods of the handle that it wraps. A backend may return an error for a handle that has none of
// them.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Enqueuer enqueues jobs. Application code that only enqueues needs no more of a backend.
type Enqueuer interface {
	// Enqueue writes jobs through db: the caller's transaction, whose commit makes them visible, or
	// nil for the backend's own handle. Any number of jobs takes one statement and one round trip,
	// and the jobs keep their order. Without jobs Enqueue does nothing.
	//
	// Enqueue fills in each job's ID. If a live job of the same queue has the job's Key, Enqueue
	// does not write the job, sets Duplicate, and fills in the live job's ID. That is not an error.
	// If the job has OnDuplicate: [Replace], it takes the live job's place. Jobs of one call with
	// one Key have the same effect as if they were enqueued one by one, in their order.
	//
	// Enqueue waits while a different transaction writes the same Key. A caller's transaction keeps
	// the keys that it has written until it ends. Enqueue writes the jobs of one call in the order
	// of their keys. Transactions that make several calls with keys should also make them in one
	// order. Otherwise two transactions can wait for each other, and the database ends one of them
	// with a deadlock error.
	//
	// A caller's transaction that replaces a job keeps that job locked until it ends. If the job is
	// running, its worker cannot settle it until then, nor extend its lease. So commit soon.
	//
	// Bad input (see [Job.Check]) is an [*InvalidError]. After any error but [ErrUnknown] no job is
	// written. The backend does not use the jobs after Enqueue has returned. Enqueue may be called
	// concurrently, with different jobs.
	Enqueue(ctx context.Context, db DB, jobs ...*Job) error
}

// Consumer claims, extends and settles jobs. An [engine.Worker] needs no more of a backend. Its
// methods may be called concurrently. Slices and jobs belong to the caller, also the slices and
// jobs that the methods return. The caller passes claimed jobs to Extend and Settle with ID, Fence
// and Worker unchanged: they prove that the caller holds the job.
//
// A holder keeps a job whose lease has expired until the job is reclaimed. If a method fails
// because ctx has ended, errors.Is finds ctx's error in the method's error.
//
// The caller retries calls that failed for lack of a connection. The backend retries statements
// that the database asks to be retried, for example after a serialization failure, unless the
// statement ran in the caller's transaction.
type Consumer interface {
	// Claim claims at most req.Limit due jobs, of at most req.Bytes, for req.Lease. It returns them
	// ordered by queue (in the order of req.Queues), priority, due time and insertion. It waits
	// neither for jobs nor for rows that a different claim has locked. Without due jobs it returns
	// none and no error. Where it would have to search long for a due job, a backend may miss it for
	// some claims. Bad input is an [*InvalidError].
	Claim(ctx context.Context, req ClaimRequest) ([]*Job, error)

	// Extend makes the leases of jobs last for lease from now. lost are the elements of jobs that
	// the caller no longer holds; Extend changes nothing of them. asked are the elements that the
	// caller still holds and is asked to cancel; each call returns them again. Extend does not wait
	// for a job that a transaction has locked, for example the handler's own, which settles the
	// job. Such a job is not lost, and its lease stays as it is. A nil job is an [*InvalidError].
	Extend(ctx context.Context, lease time.Duration, jobs ...*Job) (lost, asked []*Job, err error)

	// Settle records outcomes through db: a transaction, whose commit makes them take effect, or
	// nil for the backend's own handle. It returns the jobs that the caller no longer holds, and
	// changes nothing of them. A job that was settled before is one of them, so it is harmless to
	// settle twice. Error texts are stored as [ErrorText] returns them. A call must not have two
	// outcomes for one job. A bad outcome (see [Outcome.Check]) is an [*InvalidError].
	//
	// If db is nil, a backend may return a [*driver.LockedError] instead of waiting for a locked job.
	Settle(ctx context.Context, db DB, outcomes ...Outcome) (lost []*Job, err error)
}

// Queue is a complete backend: it has the four operations.
type Queue interface {
	Enqueuer
	Consumer
}

// DefaultQueue is the queue of a [Job] or an [engine.Worker] that names none.
const DefaultQueue = "default"

// ClaimRequest says which jobs a worker wants, how many and for how long.
type ClaimRequest struct {
	// Queues are the queues in priority order: jobs of the first are claimed before jobs of the
	// second. At least one is required.
	Queues []string
	// Kinds are the kinds to claim; empty means every kind.
	Kinds []string
	// Limit is how many jobs to claim at most; at least 1.
	Limit int
	// Ahead is how many of the Limit would wait for a free slot. Where a [Rule] limits how many jobs
	// of a queue run or start, at most Limit-Ahead are claimed, because a job that waits would keep
	// other jobs from running.
	Ahead int
	// Bytes is about how many bytes the payloads and headers of the jobs may have in total. The
	// claim ends before the first job that does not fit, but claims the first job whatever its
	// length. 0 means 16 MiB.
	Bytes int
	// Lease is how long the claim lasts without being extended: from 1 ms to a year.
	Lease time.Duration
	// Worker is the holder's name: 1 to 200 printable ASCII bytes, unique among the workers that
	// run.
	Worker string
	// Shared says that other processes may claim under the same name, as several gateways do for
	// one worker, or that calls of Claim under it may overlap. Then the jobs of a claim whose answer
	// was lost wait until their lease has expired. Without it the worker's next claim may release
	// all jobs under its name whose claim this process has not been answered.
	Shared bool
}

// Check returns an [*InvalidError] for the first field that is out of range. Backends call it first
// in Claim.
func (r ClaimRequest) Check() error {
	if len(r.Queues) == 0 {
		return invalid("Queues", "empty: name at least one queue")
	}
	for _, q := range r.Queues {
		if err := checkName("Queues", q); err != nil {
			return err
		}
	}
	for _, k := range r.Kinds {
		if err := checkName("Kinds", k); err != nil {
			return err
		}
	}
	if r.Limit < 1 {
		return invalid("Limit", "%d: at least 1", r.Limit)
	}
	if r.Ahead < 0 || r.Ahead > r.Limit {
		return invalid("Ahead", "%d: between 0 and Limit", r.Ahead)
	}
	if r.Bytes < 0 {
		return invalid("Bytes", "%d: at least 1, or 0 for %d", r.Bytes, defaultClaimBytes)
	}
	if err := asError("Lease", check.Lease(r.Lease)); err != nil {
		return err
	}
	return checkName("Worker", r.Worker)
}

const defaultClaimBytes = 16 << 20

// MaxBytes returns Bytes, or 16 MiB if Bytes is 0.
func (r ClaimRequest) MaxBytes() int { return cmp.Or(r.Bytes, defaultClaimBytes) }
