package engine

import (
	"errors"
	"slices"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// unsettledJobs returns the jobs whose outcomes are not recorded although those of the other jobs
// are, according to the error of Settle.
func unsettledJobs(err error) []*queue.Job {
	if partial, ok := errors.AsType[*driver.PartialError](err); ok {
		return partial.Jobs
	}
	if locked, ok := errors.AsType[*driver.LockedError](err); ok {
		return locked.Jobs
	}
	return nil
}

// withoutFailed returns the jobs of a batch whose leases are extended after err.
func withoutFailed(batch []*heldJob, err error) []*heldJob {
	partial, ok := errors.AsType[*driver.PartialError](err)
	if !ok {
		return batch
	}
	isFailed := setOf(partial.Jobs)
	return slices.DeleteFunc(slices.Clone(batch), func(h *heldJob) bool { return isFailed[h.job] })
}
