package driver

import (
	"time"

	"github.com/errandhq/errand/internal/check"
	"github.com/errandhq/errand/queue"
)

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
