package driver

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// Fleet is a backend that knows its workers. An [engine.Worker] reports itself a second after it
// has started, and then every [ReportInterval]. So what Fleet returns is up to ten seconds old. Its
// methods may be called concurrently.
type Fleet interface {
	// ReportWorkers records what workers tell about themselves, each in the place of its last report.
	// Where Stopped is true, it removes the worker's record instead. Of several reports of one worker
	// the last one counts. A [Statistician] also adds the Stats of all reports to its statistics, in
	// the same step. It costs one statement or transaction, at most two. Without reports it does
	// nothing. If a report is bad (see [WorkerReport.Check]), the error is an [*queue.InvalidError],
	// and no report is recorded.
	ReportWorkers(ctx context.Context, reports ...WorkerReport) error
	// Workers returns all workers that have reported themselves and have not stopped, ordered by name,
	// also the vanished ones. A worker that has been silent for [ForgottenAfter] may be left
	// out: [Reclaimer].Prune removes it.
	Workers(ctx context.Context) ([]WorkerRecord, error)
	// Runs returns the jobs that the named workers hold, or the jobs of all workers if none is named:
	// at most most of each worker, the jobs that were claimed first. They are ordered by worker, Since
	// and ID. A holder that never reports itself counts as well. Runs reads the rows of all jobs that
	// run. If most is below 1 or above [MaxRuns], the error is an [*queue.InvalidError].
	Runs(ctx context.Context, most int, workers ...string) ([]RunningJob, error)
}

// Statistician is a [Fleet] that adds up the Stats of its workers' reports, by minute, queue and
// kind, and keeps them for [StatsKept]. Workers count only if the backend is one.
type Statistician interface {
	// Stats returns how many runs ended in which way, ordered by At, Queue and Kind. It leaves out
	// times without runs. The last ten seconds may be missing. A bad filter (see
	// [queue.StatsFilter.Check]) is an [*queue.InvalidError]. It may be called concurrently.
	Stats(ctx context.Context, f queue.StatsFilter) ([]queue.StatsRecord, error)
}

const (
	// ReportInterval is how often a worker reports itself to a backend that is a [driver.Fleet].
	ReportInterval = 10 * time.Second
	// VanishedAfter is how long after its last report a worker counts as vanished: three reports in
	// a row have not arrived.
	VanishedAfter = 3*ReportInterval + 5*time.Second
	// ForgottenAfter is how long after its last report Prune removes the record of a worker.
	ForgottenAfter = time.Hour
	// MaxRuns is the most jobs of each worker that one call of [driver.Fleet].Runs returns.
	MaxRuns = 1000
	// MaxRefused is the most elements of the Refused of a [WorkerInfo].
	MaxRefused = 10
)

// WorkerInfo is what a worker tells about itself. The names of its JSON form will not change.
type WorkerInfo struct {
	// Name is the name of the worker, which the jobs that it holds have as their Worker.
	Name string `json:"name"`
	// Host and PID say which process it is in.
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Version is the version of errand that the program was built with, as Go's build information
	// names it: "(devel)" if it was built from a checkout. "" means unknown.
	Version string `json:"version"`
	// Queues are the queues that it serves, in its order, and Kinds the kinds that it claims. No
	// Kinds means every kind.
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds,omitempty"`
	// Concurrency is how many handlers may run at once, Busy how many run, and Waiting how many
	// claimed jobs wait for one to end.
	Concurrency int `json:"concurrency"`
	Busy        int `json:"busy"`
	Waiting     int `json:"waiting"`
	// Slots are the queues that may use some of the Concurrency only, in the order of Queues.
	Slots []QueueSlots `json:"slots,omitempty"`
	// Lease and Grace are the fields of the [engine.Worker].
	Lease time.Duration `json:"lease_ns"`
	Grace time.Duration `json:"grace_ns"`
	// Listens is true if the backend wakes the worker when jobs arrive. Poll is how often the
	// worker looks for jobs while nothing wakes it.
	Listens bool          `json:"listens"`
	Poll    time.Duration `json:"poll_ns"`
	// ClaimError is the error of its last claim; "" if that has succeeded.
	ClaimError string `json:"claim_error,omitempty"`
	// Refused are outcomes that the backend has refused for some seconds, the first refused first, at
	// most [MaxRefused]. RefusedCount is how many there are in all.
	Refused      []RefusedOutcome `json:"refused,omitempty"`
	RefusedCount int              `json:"refused_count,omitempty"`
}

// QueueSlots says how many handlers of a worker may run jobs of a queue at once, and how many do.
// The names of its JSON form will not change.
type QueueSlots struct {
	Queue string `json:"queue"`
	Slots int    `json:"slots"`
	Busy  int    `json:"busy"`
}

// RefusedOutcome is an outcome that the backend refuses to record: the job's handler has returned,
// and its worker goes on to hold the job and retries. The names of its JSON form will not change.
type RefusedOutcome struct {
	ID    int64  `json:"id"` // the job's
	Error string `json:"error"`
	// Waited is how long before the report the backend first refused the outcome.
	Waited time.Duration `json:"waited_ns"`
}

// WorkerRecord is a worker as it has last reported itself. Times are the backend's. The names of
// its JSON form will not change.
type WorkerRecord struct {
	WorkerInfo
	// StartedAt is when the worker was started.
	StartedAt time.Time `json:"started_at"`
	// ClaimedAt is when its last claim that has succeeded was made. Zero means that none has. A
	// worker that is busy, or whose kinds are all paused, claims nothing.
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	// DrainingAt is when it was told to stop. Zero means that it was not.
	DrainingAt time.Time `json:"draining_at,omitzero"`
	// SeenAt is when it last reported itself, and Silent how long ago that was.
	SeenAt time.Time     `json:"seen_at"`
	Silent time.Duration `json:"silent_ns"`
	// Vanished is true if it has been silent for longer than [VanishedAfter]: its process has
	// crashed, is frozen, or cannot reach the database.
	Vanished bool `json:"vanished,omitempty"`
}

// Compare puts workers that have vanished behind the others, the latest first, as [slices.SortFunc]
// takes it: a worker that has just gone silent is not hidden by those that crashed long ago.
func (w WorkerRecord) Compare(other WorkerRecord) int {
	switch {
	case w.Vanished && other.Vanished:
		return other.SeenAt.Compare(w.SeenAt)
	case w.Vanished:
		return 1
	case other.Vanished:
		return -1
	}
	return 0
}

// RunningJob is a job that a worker holds: it runs, or waits for a handler of its worker to end.
// The names of its JSON form will not change.
type RunningJob struct {
	Worker  string `json:"worker"` // the holder's name
	ID      int64  `json:"id"`
	Queue   string `json:"queue"`
	Kind    string `json:"kind"`
	Attempt int    `json:"attempt"`
	// Since is when the job was claimed, by the backend's clock, and Took how long ago that is.
	Since time.Time     `json:"since"`
	Took  time.Duration `json:"took_ns"`
}
