package driver

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// Inspector is a backend whose jobs a program can list. Its methods may be called concurrently.
type Inspector interface {
	// Counts returns the number of jobs of each queue and status, ordered by queue and then by
	// status, without zeros. It stays fast with any number of jobs.
	Counts(ctx context.Context) ([]queue.StatusCount, error)
	// Tally returns the number of the chosen jobs of each queue and status, ordered as Counts does. It
	// counts every job, so it takes as long as there are IDs; without them, as there are jobs of the
	// Status, or in the whole table if that is "" or [queue.StatusCompleted]. A bad Selection is an
	// [*queue.InvalidError]; its Status may be any.
	Tally(ctx context.Context, which queue.Selection) ([]queue.StatusCount, error)
	// Jobs returns a page of jobs, which is never nil without an error. next is the Before of the
	// next page, or 0 for the last page. A page that is not the last may have fewer jobs than
	// Limit, or none: if no index serves the filter, Jobs reads a bounded number of jobs a call. A
	// bad filter is an [*queue.InvalidError].
	Jobs(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error)
	// Job returns the job with that ID. ok is false if there is none.
	Job(ctx context.Context, id int64) (r queue.Record, ok bool, err error)

	// Backlogs returns one Backlog for each queue with due jobs, ordered by queue. Ages are by the
	// backend's clock. It stays fast with any number of jobs, and may be called concurrently.
	Backlogs(ctx context.Context) ([]Backlog, error)
}

// Backlog is the state of a queue with due jobs that wait.
type Backlog struct {
	Queue string        `json:"queue"`
	Age   time.Duration `json:"age_ns"` // how long ago the job that has waited longest became due
}

// Canceller is a backend that can cancel jobs. Cancel may be called concurrently.
type Canceller interface {
	// Cancel cancels the chosen jobs that are live, through db: a transaction, whose commit makes it
	// take effect, or nil for the backend's own handle. It returns how many it has cancelled or asked.
	// Pending and held jobs are cancelled at once. Running ones are asked: their workers are told, and
	// the contexts of their handlers end with [queue.ErrCancelled]. Until its handler has returned,
	// such a job stays running, with its Key and its Fence. Then it is completed if the handler has
	// returned nil, dead if it has returned [queue.Discard], and cancelled otherwise. If its worker
	// crashes, Reclaim cancels it.
	//
	// A worker learns of it at once by a [Signal] if the backend gives one, and otherwise with its
	// next heartbeat, within a third of its lease. A job that is cancelled frees its Key, and Redrive
	// can make it pending again. A bad Selection is an [*queue.InvalidError]; its Status may be
	// [queue.StatusPending], [queue.StatusHeld] or [queue.StatusRunning].
	//
	// Through nil or a pool, Cancel changes a thousand jobs a statement. If it fails or ctx ends, the
	// jobs of earlier statements stay cancelled, and n counts them. At last it waits, one job at a
	// time, for the jobs that other transactions have locked.
	Cancel(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error)
}

// Editor is a backend that can change, redrive and delete jobs that do not run. Its methods may be
// called concurrently.
type Editor interface {
	// Edit changes the chosen jobs that are pending or held, through db: a transaction, whose commit
	// makes it take effect, or nil for the backend's own handle. It returns how many it has changed,
	// and leaves all other jobs alone. Workers are woken for jobs that are due. A job stays as it is
	// if it would move to a queue in which a live job holds its Key. A bad Selection or JobChange is
	// an [*queue.InvalidError]; the Status of which may be [queue.StatusPending] or
	// [queue.StatusHeld].
	//
	// Through nil or a pool, Edit changes a thousand jobs a statement, as [Canceller] does. It may be
	// called concurrently.
	Edit(ctx context.Context, db queue.DB, which queue.Selection, change queue.JobChange) (n int, err error)

	// Redrive makes the chosen dead jobs pending and due now, through db: a transaction, whose commit
	// makes it take effect, or nil for the backend's own handle. If which.Status is
	// [queue.StatusCancelled] or [queue.StatusHeld], it does so with cancelled or held jobs instead.
	// They have no attempts used and no last error, and their Redrives count it. Redrive returns how
	// many there were. A job stays as it is if another live job holds its Key. A bad Selection is an
	// [*queue.InvalidError]; its Status may be [queue.StatusDead], [queue.StatusCancelled] or
	// [queue.StatusHeld]. For an ID, 0 means that there is no such job, that it does not have that
	// status, or that a live job holds its Key: [Inspector].Job tells which.
	//
	// Through nil or a pool, Redrive changes a thousand jobs a statement, as [Canceller] does. It may
	// be called concurrently.
	Redrive(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error)

	// Delete deletes the chosen jobs that do not run, with their results, through db: a transaction,
	// whose commit makes it take effect, or nil for the backend's own handle. It returns how many
	// there were. Nothing is left of them, not in an archive either. Their Keys are free, and the
	// ordered jobs behind them go on. A running job stays: cancel it first. A bad Selection is an
	// [*queue.InvalidError]; its Status may be any but [queue.StatusRunning]. "" means all of these,
	// pending and completed jobs among them.
	//
	// Through nil or a pool, Delete deletes a thousand jobs a statement, as [Canceller] changes them,
	// and at last waits for the jobs that other transactions have locked. Without IDs it finds
	// completed jobs by reading the whole table. It may be called concurrently.
	Delete(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error)
}

// Pauser is a backend in which queues, groups, kinds and schedules can be paused. Its methods may
// be called concurrently.
type Pauser interface {
	// Pause pauses the target, or resumes it if paused is false, through db: a transaction, whose
	// commit makes it take effect, or nil for the backend's own handle. changed is false if that
	// changes nothing, as seen when Pause began, also because there is no such schedule. A bad target
	// (see [CheckTarget]) is an [*queue.InvalidError].
	//
	// Workers claim no more jobs of a paused queue, group or kind. Jobs that run go on, and jobs can
	// be enqueued. A pause may be for a name that no job has yet. Its end wakes workers, and ends no
	// other pause: a group of a resumed queue stays paused.
	//
	// The pause of a queue or a group is in its [queue.Rule], and changes nothing else of the rule.
	// Claims that begin after the commit keep it. The pause of a kind holds in all queues. Workers
	// that are told by a [Signal] know at once, and all other workers within five seconds, or their
	// Poll if that is longer. A worker without a [queue.Mux] claims every kind, also the paused ones.
	//
	// A paused schedule has no ticks. It goes on with the first tick after it is resumed.
	Pause(ctx context.Context, db queue.DB, target queue.Target, paused bool) (changed bool, err error)
	// PausedKinds returns the paused kinds in alphabetical order. Workers ask for it every few
	// seconds. Other pauses are in [Ruler].Rules and [Scheduler].Schedules.
	PausedKinds(ctx context.Context) ([]string, error)
}

// Auditor is a backend that keeps what people and programs have done to jobs. It only appends: the
// log is never changed or pruned. Its methods may be called concurrently.
type Auditor interface {
	// Audit appends entries in their order, through db: a transaction, whose commit makes them valid
	// together with the action, or nil for the backend's own handle. A bad entry (see
	// [queue.AuditEntry.Check]) is an [*queue.InvalidError], and then nothing is written.
	Audit(ctx context.Context, db queue.DB, entries ...queue.AuditEntry) error
	// AuditLog returns a page of entries, newest first. next is the Before of the next page, or 0 for
	// the last page. A bad filter is an [*queue.InvalidError].
	AuditLog(ctx context.Context, f queue.AuditFilter) (page []queue.AuditEntry, next int64, err error)
}
