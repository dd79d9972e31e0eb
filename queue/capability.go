package queue

import (
	"context"
	"database/sql"
	"time"
)

// As finds T, one of the interfaces below or any other, in v or in what v wraps:
// it follows Unwrap methods that return an Enqueuer, a Consumer, a Queue or a
// Handler. ok is false where nothing in the chain is a T.
func As[T any](v any) (t T, ok bool) {
	for v != nil {
		if t, ok = v.(T); ok {
			return t, true
		}
		switch u := v.(type) {
		case interface{ Unwrap() Queue }:
			v = u.Unwrap()
		case interface{ Unwrap() Enqueuer }:
			v = u.Unwrap()
		case interface{ Unwrap() Consumer }:
			v = u.Unwrap()
		case interface{ Unwrap() Handler }:
			v = u.Unwrap()
		default:
			return t, false
		}
	}
	return t, false
}

// Waiter is a backend that can wake a sleeping worker when jobs arrive. A worker
// whose claims come back empty calls Sleep, claims once more, and then sleeps until
// it is woken, the next job is due, or its poll; the poll also covers a
// wake-up that was missed.
type Waiter interface {
	// Listen calls wake whenever a job may have become due in one of the queues, or
	// will be at another time than Sleep said, since worker last called Sleep. It does so
	// until ctx ends, after which worker does not call Sleep any more. Then Listen forgets
	// what Sleep has announced, within a few seconds, and returns nil. It
	// reconnects by itself and calls wake after that, too. wake does not block and may be
	// called concurrently.
	// An error means that the backend cannot wake workers at all: they poll.
	Listen(ctx context.Context, worker string, queues []string, wake func()) error

	// Sleep announces that worker is about to sleep, which lasts until Listen has
	// called its wake, or for a minute: it is repeated before that. It returns how long until the next job of
	// the queues that is not yet due will be, or less, if it wants to be called again; below 0 where there is none. It does not wait.
	Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error)
}

// Status is where a job is in its life.
type Status string

// The statuses, by the names that the table uses.
const (
	StatusPending   Status = "pending"   // waiting to be due, or to be claimed
	StatusRunning   Status = "running"   // held by a worker
	StatusCompleted Status = "completed" // done
	StatusFailed    Status = "failed"    // reserved by the documented schema; errand never sets it
	StatusDead      Status = "dead"      // given up
)

// Record is a job as an Inspector shows it.
type Record struct {
	Job
	Status    Status
	LockedAt  time.Time // when it was claimed or its lease last extended; zero unless running
	LeaseEnds time.Time // when its lease runs out; zero unless running
	UpdatedAt time.Time // when it last changed
}

// Count says how many jobs of a queue have a status. Exact is false where the
// backend estimates, as it may for counts beyond 10,000.
type Count struct {
	Queue  string
	Status Status
	Jobs   int64
	Exact  bool
}

// Filter chooses jobs to list; a zero field chooses all. Jobs come newest (the
// highest ID) first. The next page is the one with Before as Jobs returned it.
type Filter struct {
	Queue  string
	Kind   string
	Status Status
	Key    string
	Before int64 // only jobs with a lower ID; 0 means from the newest
	Limit  int   // the most jobs to return; 0 means 100, at most 1,000
}

// Next returns the Before of the page that follows page, which a backend has listed for f without
// leaving a match out: the ID of its last job, or 0 where page is shorter than f.Limit.
func (f Filter) Next(page []Record) int64 {
	if len(page) < f.Limit {
		return 0
	}
	return page[len(page)-1].ID
}

// Checked returns f with its default Limit, or an [*InvalidError] if a field is out
// of range. Backends begin Jobs with it.
func (f Filter) Checked() (Filter, error) {
	const usual, most = 100, 1000
	if f.Limit < 0 || f.Limit > most {
		return f, invalid("Limit", "%d: between 0 (for %d) and %d", f.Limit, usual, most)
	}
	if f.Limit == 0 {
		f.Limit = usual
	}
	switch f.Status {
	case "", StatusPending, StatusRunning, StatusCompleted, StatusFailed, StatusDead:
		return f, nil
	}
	return f, invalid("Status", "%q: not a status", f.Status)
}

// Inspector is a backend whose jobs can be looked at.
type Inspector interface {
	// Counts counts jobs by queue and status, in that order, leaving out zeros. It
	// stays fast however many jobs there are.
	Counts(ctx context.Context) ([]Count, error)
	// Jobs lists jobs. next is the Before of the next page, or 0 where this is the last one. A page
	// may hold fewer jobs than Limit, or none, although it is not the last: where no index serves
	// the filter, Jobs looks at a bounded number of jobs a call. A bad filter is an [*InvalidError].
	Jobs(ctx context.Context, f Filter) (page []Record, next int64, err error)
	// Job returns the job of that ID; ok is false where there is none.
	Job(ctx context.Context, id int64) (r Record, ok bool, err error)
}

// Backlog is what waits in a queue although it is due.
type Backlog struct {
	Queue string
	Age   time.Duration // how long ago the job that has waited longest became due
}

// Backlogger is a backend that tells how far its workers are behind.
type Backlogger interface {
	// Backlogs returns, for each queue with jobs that are pending and due, how
	// long the oldest of them has waited, by the backend's clock, in the order of the
	// queues' names. It stays fast however many jobs there are.
	Backlogs(ctx context.Context) ([]Backlog, error)
}

// Redrive chooses dead jobs: the one with that ID, or all of a queue, of a kind,
// or of both. At least one field must be set.
type Redrive struct {
	ID    int64
	Queue string
	Kind  string
}

// Check returns an [*InvalidError] where no field is set.
func (r Redrive) Check() error {
	if r == (Redrive{}) {
		return invalid("Redrive", "empty: name an ID, a Queue or a Kind")
	}
	return nil
}

// Redriver is a backend that gives dead jobs another life.
type Redriver interface {
	// Redrive makes the chosen dead jobs pending, due now, with no attempts used
	// and no last error, and returns how many. A job whose Key a live job has
	// taken meanwhile stays dead.
	Redrive(ctx context.Context, which Redrive) (n int, err error)
}

// Pruner is a backend that removes what has ended once its retention is over.
type Pruner interface {
	// Prune looks at a slice of the jobs and removes those that are over. Calls walk from the oldest
	// jobs to younger ones. more is true while the pass goes on; the next call looks at the next slice.
	// A pass may end before the last slice, where it has found nothing to remove for a while, or
	// because another process is pruning. The next pass goes on from there.
	Prune(ctx context.Context) (removed int, more bool, err error)
}

// Reclaimer is a backend that takes jobs back from workers that let their leases
// run out. A backend without it does so by itself.
type Reclaimer interface {
	// Reclaim takes back at most limit jobs (at least 1, or it is an
	// [*InvalidError]) and returns them: pending again, at once due, or dead if that was their last attempt (Attempt tells).
	// LastError says from which worker. Their Payload and Headers are left out. It never takes a job whose lease lasts, and may leave one whose run
	// before ended like this, too, for up to half a lease longer, or, from the fourth attempt on, three leases.
	Reclaim(ctx context.Context, limit int) ([]*Job, error)
}

// TxClaimer is a backend that can claim without a lease: the claim and the work
// are one transaction.
type TxClaimer interface {
	// ClaimTx claims one job within tx, the caller's transaction: committing it completes the job.
	// It returns nil where no job is due. req.Lease, req.Limit and req.Worker may be zero; they
	// are not used. The job is locked, and invisible to other claimers, until the transaction
	// ends: a prepared one included. A tx that is no transaction, or does not show that it is
	// one (see [DB]), is an [*InvalidError].
	//
	// To record that the work has failed, Settle the job in the same transaction, with Retry, Dead
	// or Release, and commit. Set a savepoint after ClaimTx, and roll back to it first, where
	// the work has written something. Then the attempt counts, and MaxAttempts holds.
	//
	// Rolling back, or a crash, returns the job at once, as if it had never been claimed. That
	// counts no attempt, and nothing bounds how often it happens: a job that ends its process
	// is handed out again each time. Claim with a lease where jobs may do that. Once the transaction
	// has ended, nobody holds the job: Settle reports it lost.
	ClaimTx(ctx context.Context, tx DB, req ClaimRequest) (*Job, error)
}

// Pooled is a backend whose calls take connections out of a [sql.DB] of the caller's, which may limit them.
type Pooled interface {
	// Reserve notes that the handlers of a worker may hold n connections of each of dbs at once, until release is called. It returns
	// how many calls of the backend can then have a connection at once, besides what listens and what other workers of this
	// backend have reserved: below 1, none. It does not wait.
	Reserve(n int, dbs ...*sql.DB) (left int, release func())
}

// TxBeginner is a backend whose database lets only one transaction write at a time, as SQLite does. Its own calls take turns, and a
// transaction that lasts as long as a handler takes a turn with BeginTx: then no call of the backend has to
// compete with it for the database's lock, and the extension of leases goes before the next such transaction.
type TxBeginner interface {
	// BeginTx waits for its turn until ctx ends, and begins a transaction on db, which is a handle of the backend's database, or nil
	// for the backend's own. The transaction ends with ctx, as one of db.BeginTx does. end ends the turn: call it when the
	// transaction has been committed or rolled back. It rolls back one that has not, and further calls do nothing. Until end is called, calls of
	// the backend that write wait, except through tx.
	BeginTx(ctx context.Context, db *sql.DB, o *sql.TxOptions) (tx *sql.Tx, end func(), err error)
}
