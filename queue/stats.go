package queue

import (
	"math"
	"time"
)

// Stats count runs by how they ended. The names of their JSON form will not change.
type Stats struct {
	// Done counts the runs whose jobs are completed, Failed the runs whose jobs run again after a
	// failure, and Dead the runs whose jobs are dead. Runs that were released or cancelled do not
	// count.
	Done   int64 `json:"done"`
	Failed int64 `json:"failed"`
	Dead   int64 `json:"dead"`
	// Lost counts the jobs that were reclaimed because their leases had expired. If that has made the
	// job dead, Dead counts it as well.
	Lost int64 `json:"lost"`
	// Ran is how long the handlers of the runs done, failed and dead have run in total, and Waited
	// how long their jobs had waited for that since they were due, by the worker's clock.
	Ran    time.Duration `json:"ran_ns"`
	Waited time.Duration `json:"waited_ns"`
	// RunTimes and WaitTimes are the same as histograms.
	RunTimes  Histogram `json:"run_times,omitempty"`
	WaitTimes Histogram `json:"wait_times,omitempty"`
}

// Add adds other to s.
func (s *Stats) Add(other Stats) {
	s.Done += other.Done
	s.Failed += other.Failed
	s.Dead += other.Dead
	s.Lost += other.Lost
	s.Ran = addTimes(s.Ran, other.Ran)
	s.Waited = addTimes(s.Waited, other.Waited)
	s.RunTimes = s.RunTimes.Add(other.RunTimes)
	s.WaitTimes = s.WaitTimes.Add(other.WaitTimes)
}

// CountRun counts a run of which e tells how it has ended, if its job is completed, retried or
// dead. The job had waited for waited.
func (s *Stats) CountRun(e Event, waited time.Duration) {
	switch e.Type {
	case EventCompleted:
		s.Done++
	case EventRetried:
		s.Failed++
	case EventDead:
		s.Dead++
	default:
		return
	}
	waited = max(waited, 0)
	s.Ran = addTimes(s.Ran, e.Took)
	s.Waited = addTimes(s.Waited, waited)
	s.RunTimes = s.RunTimes.with(e.Took)
	s.WaitTimes = s.WaitTimes.with(waited)
}

// addTimes returns the sum of two durations of at least 0, or the longest duration there is. A
// backlog of 200,000 jobs that have waited for 13 hours comes to more than that.
func addTimes(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}

// StatsRecord is what a [driver.Statistician] returns. The names of its JSON form will not change.
type StatsRecord struct {
	// At is the beginning of the time that the record is about.
	At time.Time `json:"at"`
	// Queue and Kind are the queue and kind of the runs, or "" where the filter does not tell them
	// apart.
	Queue string `json:"queue,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Stats
}

// StatsFilter chooses statistics. Its zero value chooses all, in one record.
type StatsFilter struct {
	// Queue and Kind choose only statistics of that queue and kind. "" means all.
	Queue string
	Kind  string
	// From and To choose only minutes that begin at From or later, and before To, by the backend's
	// clock. Zero means no bound.
	From time.Time
	To   time.Time
	// Step is how long the time of each record is: whole minutes, counted from midnight UTC on the
	// first of January 1970. 0 means one record for all minutes, whose At is the first of them.
	Step time.Duration
	// ByQueue and ByKind make records of their own for each queue, and each kind.
	ByQueue bool
	ByKind  bool
	// Times fills in RunTimes and WaitTimes, which takes longer.
	Times bool
}

// Check returns an [*InvalidError] for the first field that is out of range. Backends call it first
// in Stats.
func (f StatsFilter) Check() error {
	if err := checkTexts(f.Queue, f.Kind, ""); err != nil {
		return err
	}
	if f.Step < 0 || f.Step%time.Minute != 0 {
		return invalid("Step", "%v: whole minutes, or 0", f.Step)
	}
	for _, c := range []struct {
		field string
		at    time.Time
	}{{"From", f.From}, {"To", f.To}} {
		if y := c.at.UTC().Year(); !c.at.IsZero() && (y < 1970 || y > 9999) {
			return invalid(c.field, "year %d: between 1970 and 9999", y)
		}
	}
	return nil
}
