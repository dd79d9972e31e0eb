package driver

import (
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

// PartialError is the error of an Extend, a Settle or a Reclaim of a backend that stands for
// several, of which some have failed: everything is done except for Jobs. An [engine.Worker] keeps
// the leases of the other jobs and takes their outcomes as recorded. It retries the outcomes of
// Jobs apart from other outcomes. The jobs that Reclaim returns with it are reclaimed; what the
// backends that have failed did is not known. Such a backend logs by itself which one has failed.
type PartialError struct {
	Jobs []*queue.Job // elements of the call's jobs, by their pointers; nil for Reclaim
	Err  error        // the cause
}

// Error tells how many jobs have failed, and the cause.
func (e *PartialError) Error() string {
	if len(e.Jobs) == 0 {
		return fmt.Sprintf("queue: failed for some backends, done for the others: %v", e.Err)
	}
	return fmt.Sprintf("queue: failed for %d jobs, done for the others: %v", len(e.Jobs), e.Err)
}

// Unwrap returns Err.
func (e *PartialError) Unwrap() error { return e.Err }

// SlowError is the error of a claim that could not read the payload of a job in time. The backend
// releases the job for Delay, without costing an attempt, so that the jobs behind it run. The
// worker logs it, claims again at once, and gives its claims twice the time for a while: at most
// two thirds of its lease. A payload that takes longer than that never runs.
type SlowError struct {
	Job   *queue.Job // without its Payload
	Delay time.Duration
	Err   error // the cause
}

// Error names the job and the cause.
func (e *SlowError) Error() string {
	return fmt.Sprintf("queue: payload of job %d not read in time, job released for %v: %v", e.Job.ID, e.Delay, e.Err)
}

// Unwrap returns Err.
func (e *SlowError) Unwrap() error { return e.Err }

// LockedError is the error of a Settle through the backend's own handle that has recorded all
// outcomes but the outcomes of Jobs, because a transaction has locked them for longer than the
// backend waits. A keyed Enqueue with [queue.Replace] locks the job whose Key it takes, until its
// transaction ends. The worker settles these jobs apart from all other jobs.
type LockedError struct {
	Jobs []*queue.Job
	Err  error // the cause
}

// Error tells how many jobs are locked, and the cause.
func (e *LockedError) Error() string {
	return fmt.Sprintf("queue: outcomes of %d jobs not recorded, a transaction has locked them: %v", len(e.Jobs), e.Err)
}

// Unwrap returns Err.
func (e *LockedError) Unwrap() error { return e.Err }
