package driver

import (
	"context"
	"log/slog"
	"time"

	"github.com/errandhq/errand/queue"
)

// Waiter is a backend that can wake a sleeping worker when jobs arrive, and tell it of what else
// changes. A worker whose claim comes back empty calls Sleep, claims once more, and then sleeps
// until the backend wakes it, the next job is due, or Poll has passed. The poll finds jobs whose
// wake-up was missed. The methods may be called concurrently.
type Waiter interface {
	// Listen calls tell with each [Signal] for worker, which serves the queues. Without queues there
	// is none for jobs. It blocks until ctx ends; worker does not call Sleep after that. Then it
	// forgets the announcement of Sleep, within a few seconds, and returns nil. If its connection
	// breaks, it reconnects by itself and gives [AllSignals]. tell does not block and may be called
	// concurrently. An error means that the backend cannot tell: the worker polls.
	Listen(ctx context.Context, worker string, queues []string, tell func(Signal)) error

	// Sleep announces that worker is about to sleep. The announcement is valid until Listen has
	// signalled jobs, and for at most a minute; worker repeats it before that. Sleep returns
	// how long until the next scheduled job of the queues is due, or less if it should be called
	// again sooner. Below 0 means that no job is scheduled. Sleep does not wait for jobs.
	Sleep(ctx context.Context, worker string, queues []string) (next time.Duration, err error)

	// CheckListen returns why the running Listen of worker, or of any worker of the backend, cannot
	// tell it anything: the error with which connecting has failed since it last worked. It returns
	// nil while Listen works, and before its first attempt has ended. The worker asks each second;
	// while there is an error, it logs it and polls. CheckListen does not block, and may be called
	// concurrently.
	CheckListen(worker string) error
}

// Signal says what a worker should look at. It is a hint: what the backend answers counts.
type Signal struct {
	// Jobs says that a job of the queues may have become due since worker last called Sleep, also
	// because a rule has changed, or that the next job is due at a different time than Sleep returned.
	Jobs bool
	// Cancels says that worker may be asked to cancel the jobs with these IDs, or any of its jobs if
	// there are none. Extend answers which. A backend without such signals leaves it to heartbeats.
	Cancels bool
	IDs     []int64
	// Pauses says that the paused kinds may have changed. A [Pauser] tells all workers.
	Pauses bool
}

// AllSignals returns the signal that anything may have changed.
func AllSignals() Signal { return Signal{Jobs: true, Cancels: true, Pauses: true} }

// Reclaimer is a backend whose workers reclaim jobs. A backend without it reclaims jobs by itself.
type Reclaimer interface {
	// Reclaim reclaims at most limit jobs whose leases have expired, and returns them without Payload
	// and Headers. Such a job is pending and due at once, or dead if Attempt has reached MaxAttempts.
	// Its LastError is "errand: the lease of worker NAME expired". A job that its worker was asked to
	// cancel is cancelled instead, and its LastError is [ReclaimedCancelled]. If the run before
	// was reclaimed as well, Reclaim may wait for up to half a lease longer, and from the fourth
	// attempt on for up to three leases. If the clock by which leases end has jumped forward since the
	// call before, leases that began before the jump end later by as much. A limit below 1 is an
	// [*queue.InvalidError]. A backend that stands for several returns a [*PartialError] with the jobs
	// of the backends that have not failed. It may be called concurrently.
	Reclaim(ctx context.Context, limit int) ([]*queue.Job, error)

	// Prune reads a bounded number of jobs and removes the jobs whose retention is over. Calls go from
	// the oldest jobs to younger ones. more is true while the pass continues with the next call. A
	// pass may end early, because it has found nothing to remove for a while or because a different
	// process is pruning. The next pass continues there.
	Prune(ctx context.Context) (removed int, more bool, err error)
}

// DeathTeller is a backend that is no [Reclaimer] to its workers, because it reclaims jobs by
// itself, or one that stands for several, of which some are no Reclaimer.
type DeathTeller interface {
	// Deaths returns the jobs of the queues that the backend has reclaimed in their last attempt, as
	// Reclaim does, and that no earlier call has returned. A worker with an OnDead calls it about
	// every quarter of its Lease. The backend may forget a job that nobody has asked for. Deaths may
	// return jobs together with an error.
	Deaths(ctx context.Context, queues []string) ([]*queue.Job, error)
}

// Upkeeper is a backend that has work of its own to do while a worker runs, such as to forward the
// jobs of an outbox.
type Upkeeper interface {
	// Upkeep does that work until ctx ends, stops in the time that o allows, and returns nil, or an
	// error if something is left undone, such as a call of OnDead that goes on; then Run returns it.
	// It returns earlier if there is nothing to do, or an error if it cannot be done; the worker logs
	// it. A worker calls it once, in a goroutine of its own, and waits for its end. It may be called
	// concurrently.
	Upkeep(ctx context.Context, o UpkeepOptions) error
}

// UpkeepOptions is what [Upkeeper] uses of the worker that calls it.
type UpkeepOptions struct {
	// Logger is the [engine.Worker.Logger]. nil means [slog.Default].
	Logger *slog.Logger
	// Grace and Halt are the worker's ([engine.Worker]), for calls that run when ctx ends. Grace 0
	// means 20 s, and below 0 is an error.
	Grace time.Duration
	Halt  <-chan struct{}
	// OnDead is the worker's [engine.Worker.OnDead]. It is called for jobs that Upkeep reclaims or
	// makes dead, by the same rules. nil means that such jobs are only logged.
	OnDead func(ctx context.Context, job *queue.Job, err error)
	// Observe is the [engine.Worker.Observe]. It is called for the same jobs. nil means that nothing
	// is called.
	Observe func(queue.Event)
}
