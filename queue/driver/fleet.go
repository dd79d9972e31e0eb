package driver

import (
	"time"
)

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
	// Lease and Grace are the fields of the [engine.Worker].
	Lease time.Duration `json:"lease_ns"`
	Grace time.Duration `json:"grace_ns"`
	// Listens is true if the backend wakes the worker when jobs arrive. Poll is how often the
	// worker looks for jobs while nothing wakes it.
	Listens bool          `json:"listens"`
	Poll    time.Duration `json:"poll_ns"`
	// ClaimError is the error of its last claim; "" if that has succeeded.
	ClaimError string `json:"claim_error,omitempty"`
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
