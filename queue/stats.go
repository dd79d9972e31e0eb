package queue

import (
	"fmt"
	"math"
	"time"
)

const (
	// StatsKept is how long a [Statistician] keeps its statistics.
	StatsKept = 48 * time.Hour
	// MaxStats is the most elements of the Stats of a [WorkerReport].
	MaxStats = 1000
	// OtherStats is the Queue and the Kind of the runs that a worker has not told apart, because it
	// has seen so many different queues and kinds within ten seconds.
	OtherStats = "(other)"
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

// addTimes returns the sum of two durations of at least 0, or the longest duration there is. A
// backlog of 200,000 jobs that have waited for 13 hours comes to more than that.
func addTimes(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}

// MinuteStats are the statistics of a minute, queue and kind in a [WorkerReport].
type MinuteStats struct {
	Queue string
	Kind  string
	// Age is how long ago the minute began. See [MinuteStats.Minute].
	Age time.Duration
	Stats
}

// Minute returns the minute to which a backend adds the statistics, if its time is now: the minute
// that begins closest to the minute by the worker's clock.
func (s MinuteStats) Minute(now time.Time) time.Time {
	return now.Add(30*time.Second - s.Age).UTC().Truncate(time.Minute)
}

// StatsRecord is what a [Statistician] returns. The names of its JSON form will not change.
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

// checkStats checks the Stats of a report.
func checkStats(all []MinuteStats) error {
	if len(all) > MaxStats {
		return invalid("Stats", "%d: at most %d", len(all), MaxStats)
	}
	for i, s := range all {
		field := func(name string) string { return fmt.Sprintf("Stats[%d].%s", i, name) }
		if err := checkName(field("Queue"), s.Queue); err != nil {
			return err
		}
		if err := checkName(field("Kind"), s.Kind); err != nil {
			return err
		}
		if s.Age < 0 || s.Age > maxDelay {
			return invalid(field("Age"), "%v: between 0 and %v", s.Age, maxDelay)
		}
		if min(s.Done, s.Failed, s.Dead, s.Lost, int64(s.Ran), int64(s.Waited)) < 0 {
			return invalid(fmt.Sprintf("Stats[%d]", i), "a count below 0")
		}
		for _, h := range []Histogram{s.RunTimes, s.WaitTimes} {
			if len(h) > MaxBuckets {
				return invalid(fmt.Sprintf("Stats[%d]", i), "%d buckets: at most %d", len(h), MaxBuckets)
			}
			for _, n := range h {
				if n < 0 {
					return invalid(fmt.Sprintf("Stats[%d]", i), "a count below 0")
				}
			}
		}
	}
	return nil
}
