package driver

import (
	"cmp"
	"slices"

	"github.com/errandhq/errand/queue"
)

// Statuses returns every status, for calls that only read.
func Statuses() []queue.Status { return append(Deletable(), queue.StatusRunning) }

// Cancellable returns the statuses of jobs that Cancel ends, or asks their workers to end.
func Cancellable() []queue.Status {
	return []queue.Status{queue.StatusPending, queue.StatusHeld, queue.StatusRunning}
}

// Editable returns the statuses of jobs that Edit changes.
func Editable() []queue.Status { return []queue.Status{queue.StatusPending, queue.StatusHeld} }

// Redrivable returns the statuses of jobs that Redrive makes pending. Without a Status it takes
// dead jobs only.
func Redrivable() []queue.Status {
	return []queue.Status{queue.StatusDead, queue.StatusCancelled, queue.StatusHeld}
}

// Deletable returns the statuses of jobs that Delete deletes: all but running.
func Deletable() []queue.Status {
	return []queue.Status{
		queue.StatusPending, queue.StatusHeld, queue.StatusCompleted, queue.StatusFailed, queue.StatusDead, queue.StatusCancelled,
	}
}

// SumCounts returns the sums of counts of the same queue and status, ordered by queue and then by
// status. A sum is exact if all its counts are.
func SumCounts(counts []queue.StatusCount) []queue.StatusCount {
	slices.SortFunc(counts, func(a, b queue.StatusCount) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Status, b.Status))
	})
	sums := make([]queue.StatusCount, 0, len(counts))
	for _, c := range counts {
		if last := len(sums) - 1; last >= 0 && sums[last].Queue == c.Queue && sums[last].Status == c.Status {
			sums[last].Jobs, sums[last].Exact = sums[last].Jobs+c.Jobs, sums[last].Exact && c.Exact
		} else {
			sums = append(sums, c)
		}
	}
	return sums
}
