package driver

import "github.com/errandhq/errand/queue"

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
