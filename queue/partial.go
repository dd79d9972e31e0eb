package queue

import (
	"errors"
	"fmt"
	"slices"
)

// PartialError is the error of an Extend, a Settle or a Reclaim of a backend that stands for
// several, of which some have failed: everything is done except for Jobs. A [Worker] keeps the
// leases of the other jobs and takes their outcomes as recorded. It retries the outcomes of Jobs
// apart from other outcomes. The jobs that Reclaim returns with it are reclaimed; what the backends
// that have failed did is not known. Such a backend logs by itself which one has failed.
type PartialError struct {
	Jobs []*Job // elements of the call's jobs, by their pointers; nil for Reclaim
	Err  error  // the cause
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

// isPartial reports whether err concerns only some of the jobs of a call, because of their backend.
func isPartial(err error) bool {
	_, ok := errors.AsType[*PartialError](err)
	return ok
}

// unsettledJobs returns the jobs whose outcomes are not recorded although those of the other jobs
// are, according to the error of Settle.
func unsettledJobs(err error) []*Job {
	if partial, ok := errors.AsType[*PartialError](err); ok {
		return partial.Jobs
	}
	if locked, ok := errors.AsType[*LockedError](err); ok {
		return locked.Jobs
	}
	return nil
}

// withoutFailed returns the jobs of a batch whose leases are extended after err.
func withoutFailed(batch []*heldJob, err error) []*heldJob {
	partial, ok := errors.AsType[*PartialError](err)
	if !ok {
		return batch
	}
	isFailed := setOf(partial.Jobs)
	return slices.DeleteFunc(slices.Clone(batch), func(h *heldJob) bool { return isFailed[h.job] })
}
