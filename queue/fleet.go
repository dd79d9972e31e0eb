package queue

import (
	"fmt"
	"math"
	"time"
)

const (
	// ReportInterval is how often a worker reports itself to a backend that is a [Fleet].
	ReportInterval = 10 * time.Second
	// VanishedAfter is how long after its last report a worker counts as vanished: three reports in
	// a row have not arrived.
	VanishedAfter = 3*ReportInterval + 5*time.Second
	// ForgottenAfter is how long after its last report Prune removes the record of a worker.
	ForgottenAfter = time.Hour
	// MaxRuns is the most jobs of each worker that one call of [Fleet].Runs returns.
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
	// Lease and Grace are the fields of the [Worker].
	Lease time.Duration `json:"lease_ns"`
	Grace time.Duration `json:"grace_ns"`
	// Listens is true if the backend wakes the worker when jobs arrive. Poll is how often the
	// worker looks for jobs while nothing wakes it.
	Listens bool          `json:"listens"`
	Poll    time.Duration `json:"poll_ns"`
	// ClaimError is the error of its last claim; "" if that has succeeded.
	ClaimError string `json:"claim_error,omitempty"`
}

// WorkerReport is what a [Worker] tells a [Fleet]. It has durations instead of times, because only
// the backend's clock counts.
type WorkerReport struct {
	WorkerInfo
	// Age is how long ago the worker was started.
	Age time.Duration
	// ClaimAge is how long ago its last claim that has succeeded was made. 0 means that none has.
	ClaimAge time.Duration
	// DrainAge is how long ago it was told to stop: it claims nothing more, and its handlers run to
	// their end. 0 means that it was not.
	DrainAge time.Duration
	// Stopped means that the worker has stopped in order. Of the other fields, only Name and Stats
	// count.
	Stopped bool
	// Stats count how the worker's runs have ended since the last report that has arrived. There are
	// at most [MaxStats] of them, each for a different minute, queue or kind.
	Stats []MinuteStats
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

// Run is a job that a worker holds: it runs, or waits for a handler of its worker to end. The names
// of its JSON form will not change.
type Run struct {
	Worker  string `json:"worker"` // the holder's name
	ID      int64  `json:"id"`
	Queue   string `json:"queue"`
	Kind    string `json:"kind"`
	Attempt int    `json:"attempt"`
	// Since is when the job was claimed, by the backend's clock, and Took how long ago that is.
	Since time.Time     `json:"since"`
	Took  time.Duration `json:"took_ns"`
}

// CheckReports returns an [*InvalidError] for the first report that is bad. Backends call it first
// in ReportWorkers.
func CheckReports(reports ...WorkerReport) error {
	for _, r := range reports {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an [*InvalidError] for the first field that is out of range.
func (r WorkerReport) Check() error {
	if err := checkName("Name", r.Name); err != nil {
		return err
	}
	if err := checkStats(r.Stats); err != nil || r.Stopped {
		return err
	}
	for _, c := range []struct {
		field string
		names []string
	}{{"Queues", r.Queues}, {"Kinds", r.Kinds}} {
		for _, name := range c.names {
			if err := checkName(c.field, name); err != nil {
				return err
			}
		}
	}
	for _, c := range []struct{ field, text string }{{"Host", r.Host}, {"Version", r.Version}, {"ClaimError", r.ClaimError}} {
		if err := checkText(c.field, c.text); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		field string
		n     int
	}{{"PID", r.PID}, {"Concurrency", r.Concurrency}, {"Busy", r.Busy}, {"Waiting", r.Waiting}} {
		if c.n < 0 || c.n > math.MaxInt32 {
			return invalid(c.field, "%d: between 0 and %d", c.n, math.MaxInt32)
		}
	}
	for _, c := range []struct {
		field string
		d     time.Duration
	}{
		{"Lease", r.Lease}, {"Grace", r.Grace}, {"Poll", r.Poll},
		{"Age", r.Age}, {"ClaimAge", r.ClaimAge}, {"DrainAge", r.DrainAge},
	} {
		if c.d < 0 || c.d > maxDelay {
			return invalid(c.field, "%v: between 0 and %v", c.d, maxDelay)
		}
	}
	return nil
}

// CheckRuns returns an [*InvalidError] for what [Fleet].Runs does not accept. Backends call it
// first.
func CheckRuns(most int, workers []string) error {
	if most < 1 || most > MaxRuns {
		return invalid("most", "%d: between 1 and %d", most, MaxRuns)
	}
	for i, name := range workers {
		if err := checkText(fmt.Sprintf("workers[%d]", i), name); err != nil {
			return err
		}
	}
	return nil
}
