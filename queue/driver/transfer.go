package driver

import (
	"context"
	"time"

	"github.com/errandhq/errand/internal/check"
	"github.com/errandhq/errand/queue"
)

// Receiver is a backend that takes over jobs of a different backend: the jobs of an outbox, or of a
// queue that moves.
type Receiver interface {
	// Receive enqueues the jobs of transfers through the backend's own handle, all of them or none. A
	// backend over several partitions may enqueue some of them and return ErrUnknown. Receive leaves
	// out each job with a Source that it has received within [TransferWindow], so a call may be
	// repeated after any error, ErrUnknown included. Of several transfers with one Source it takes the
	// first. It remembers a Source in the same step in which it enqueues the job.
	//
	// What Enqueue does with a job, Receive does as well: its Key, OnDuplicate and due time mean the
	// same, and it fills in ID, Duplicate and Replaced; for a job that is left out these three mean
	// nothing. A job that is written anew keeps its CreatedAt, unless that is zero, and its Attempt
	// and LastError.
	//
	// It returns how many jobs it has not left out. Bad input (see [Transfer.Check]) is an
	// [*queue.InvalidError], and then no job is written. It may be called concurrently.
	Receive(ctx context.Context, transfers ...Transfer) (received int, err error)
}

// Reassigner is a backend that can give claimed jobs to other workers, for a program that claims
// for many workers at once, as a gateway does.
type Reassigner interface {
	// Reassign makes workers[i] the holder of jobs[i] instead of its Worker, and sets its Worker to
	// that. The fences and the leases stay. It returns the jobs for which it has not done so: their
	// Worker does not hold them, or a transaction has locked them. After an error it is not known who
	// holds the jobs, and no Worker is changed. It does not wait for locked jobs. A worker's name that
	// [queue.ClaimRequest] does not allow is an [*queue.InvalidError], and so are more or fewer names
	// than jobs. It may be called concurrently.
	Reassign(ctx context.Context, workers []string, jobs ...*queue.Job) (left []*queue.Job, err error)
}

// Transfer is a job on its way from one backend to another. See [Receiver].
type Transfer struct {
	// Source names the job among the jobs of all databases, and is the same each time that the job is
	// sent: 1 to 200 printable ASCII bytes.
	Source string
	// Job is what to enqueue. Its CreatedAt, Attempt and LastError count as well.
	Job *queue.Job
}

// TransferWindow is how long a [Receiver] remembers the Source of a job.
const TransferWindow = 24 * time.Hour

// Check returns an [*queue.InvalidError] for the first bad field, as [queue.Job.Check] does.
// Backends check all transfers of a call before they write any.
func (t Transfer) Check(maxPayload int) error {
	if err := checkName("Source", t.Source); err != nil {
		return err
	}
	if err := t.Job.Check(maxPayload); err != nil {
		return err
	}
	if t.Job.Attempt < 0 || t.Job.Attempt > check.MaxAttempts {
		return invalid("Attempt", "%d: between 0 and %d", t.Job.Attempt, check.MaxAttempts)
	}
	if y := t.Job.CreatedAt.UTC().Year(); !t.Job.CreatedAt.IsZero() && (y < 1970 || y > 9999) {
		return invalid("CreatedAt", "year %d: between 1970 and 9999", y)
	}
	return checkText("LastError", t.Job.LastError)
}
