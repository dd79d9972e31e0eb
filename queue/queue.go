package queue

import (
	"cmp"
	"context"
	"database/sql"
	"time"
)

// DB is what a statement needs. *sql.DB, *sql.Tx and *sql.Conn are one, and so
// are the handles of sqlx, gorm and others that embed them.
//
// A backend tells by a handle's methods what it is: a transaction has Commit and Rollback, a pool
// has Conn, a connection has Raw, as in database/sql. A wrapper of an application's own should have
// the methods of what it wraps. A backend may refuse a handle that shows none of them.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Enqueuer is all that application code needs to hand out work.
type Enqueuer interface {
	// Enqueue writes jobs through db: the caller's transaction, in which they
	// become visible when it commits, or nil for the backend's own handle. It is
	// one statement and one round trip for any number of jobs, which keep their
	// order; with no jobs it does nothing.
	//
	// It fills in each job's ID, and Duplicate where the job's Key was already
	// taken by a live job of the same queue: that is not an error, the job is not
	// written, and ID is the live job's.
	//
	// It waits where another transaction is writing the same Key, and a caller's
	// transaction has the keys that it wrote until it ends. The jobs of one call are
	// written in the order of their keys. Transactions that make several calls with
	// keys should make them in one order, too, or the database ends one of two that
	// wait for each other with a deadlock error.
	//
	// Bad input (see [Job.Check]) is an [*InvalidError] and nothing is written;
	// so is nothing on any other error but [ErrUnknown]. The jobs belong to the
	// caller again when Enqueue returns. It may be called concurrently, with
	// different jobs.
	Enqueue(ctx context.Context, db DB, jobs ...*Job) error
}

// Consumer is all that a [Worker] needs of a backend. Its methods may be called
// concurrently. The slices belong to the caller; the jobs that Claim returns are
// the caller's too and are passed back to Extend and Settle unchanged in ID,
// Fence and Worker, which together are the proof that the caller holds them.
//
// A job whose lease has run out is still its holder's until it is reclaimed. An
// error because ctx ended is one that errors.Is finds to be ctx's.
//
// The backend does not retry what failed for lack of a connection: the caller
// does. It does retry what the database asks to be retried, such as a
// serialization failure, unless the statement ran in the caller's transaction.
type Consumer interface {
	// Claim takes at most req.Limit due jobs, of at most req.Bytes, for req.Lease and returns them by
	// queue (in the order of req.Queues), priority, due time and insertion. It
	// never waits, for work or for another claimer's rows; without due jobs it
	// returns none and no error. Bad input is an [*InvalidError].
	Claim(ctx context.Context, req ClaimRequest) ([]*Job, error)

	// Extend makes the leases of jobs last for lease from now. It returns those of
	// jobs that the caller no longer holds, of which nothing was changed. It does
	// not wait for a job that a transaction has locked, as the handler's own does that
	// settles it: such a job stays as it is and is not lost. What it returns are elements
	// of jobs. A nil job is an [*InvalidError].
	Extend(ctx context.Context, lease time.Duration, jobs ...*Job) (lost []*Job, err error)

	// Settle records outcomes through db: a transaction, in which they take effect
	// when it commits, or nil for the backend's own handle. It returns those jobs
	// that the caller no longer holds, among them those settled before: nothing
	// was changed for these, so settling twice is harmless. Error texts are stored
	// as [ErrorText] gives them. Outcomes for one job must not repeat in one call.
	Settle(ctx context.Context, db DB, outcomes ...Outcome) (lost []*Job, err error)
}

// Queue is a complete backend.
type Queue interface {
	Enqueuer
	Consumer
}

// DefaultQueue is the queue of a job, and of a [Worker], that names none.
const DefaultQueue = "default"

// ClaimRequest says which jobs a worker wants, how many and for how long.
type ClaimRequest struct {
	// Queues in priority order: jobs of the first are taken before any of the
	// second. At least one.
	Queues []string
	// Kinds restricts the claim to jobs of these kinds; empty means every kind.
	Kinds []string
	// Limit is the most jobs to take; at least 1.
	Limit int
	// Bytes is about how long the payloads and headers of the jobs may be together: the
	// claim ends before the first job that does not fit, but takes one job however long. 0 means 16 MiB.
	Bytes int
	// Lease is how long the claim lasts without being extended; above 0.
	Lease time.Duration
	// Worker names the claimer: 1 to 200 printable ASCII bytes, unique among
	// the workers of a queue.
	Worker string
}

// Check returns an [*InvalidError] for the first field that is out of range.
// Backends call it first in Claim.
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
	if r.Bytes < 0 {
		return invalid("Bytes", "%d: at least 1, or 0 for %d", r.Bytes, defaultClaimBytes)
	}
	if err := CheckLease(r.Lease); err != nil {
		return err
	}
	return checkName("Worker", r.Worker)
}

const defaultClaimBytes = 16 << 20

// MaxBytes is Bytes, or its default.
func (r ClaimRequest) MaxBytes() int { return cmp.Or(r.Bytes, defaultClaimBytes) }

// maxLease keeps lease arithmetic far from the ends of every clock's range.
const maxLease = 365 * 24 * time.Hour

// CheckLease returns an [*InvalidError] unless lease is between a millisecond
// and a year. Backends call it first in Extend.
func CheckLease(lease time.Duration) error {
	if lease < time.Millisecond || lease > maxLease {
		return invalid("Lease", "%v: between 1ms and %v", lease, maxLease)
	}
	return nil
}
