package driver

import (
	"fmt"
	"math"
	"time"

	"github.com/errandhq/errand/internal/check"
	"github.com/errandhq/errand/queue"
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

// WorkerReport is what an [engine.Worker] tells a [Fleet]. It has durations instead of times,
// because only the backend's clock counts.
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

// MinuteStats are the statistics of a minute, queue and kind in a [WorkerReport].
type MinuteStats struct {
	Queue string
	Kind  string
	// Age is how long ago the minute began. See [MinuteStats.Minute].
	Age time.Duration
	queue.Stats
}

// Minute returns the minute to which a backend adds the statistics, if its time is now: the minute
// that begins closest to the minute by the worker's clock.
func (s MinuteStats) Minute(now time.Time) time.Time {
	return now.Add(30*time.Second - s.Age).UTC().Truncate(time.Minute)
}

// CheckReports returns an [*queue.InvalidError] for the first report that is bad. Backends call it
// first in ReportWorkers.
func CheckReports(reports ...WorkerReport) error {
	for _, r := range reports {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an [*queue.InvalidError] for the first field that is out of range.
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
	for i, slots := range r.Slots {
		if err := checkSlots(fmt.Sprintf("Slots[%d]", i), slots); err != nil {
			return err
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
	}{{"PID", r.PID}, {"Concurrency", r.Concurrency}, {"Busy", r.Busy}, {"Waiting", r.Waiting}, {"RefusedCount", r.RefusedCount}} {
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
		if c.d < 0 || c.d > check.MaxDelay {
			return invalid(c.field, "%v: between 0 and %v", c.d, check.MaxDelay)
		}
	}
	return checkRefused(r.Refused)
}

// checkSlots checks what a report says of a queue's slots.
func checkSlots(field string, s QueueSlots) error {
	if err := checkName(field+".Queue", s.Queue); err != nil {
		return err
	}
	if s.Slots < 0 || s.Slots > math.MaxInt32 {
		return invalid(field+".Slots", "%d: between 0 and %d", s.Slots, math.MaxInt32)
	}
	if s.Busy < 0 || s.Busy > math.MaxInt32 {
		return invalid(field+".Busy", "%d: between 0 and %d", s.Busy, math.MaxInt32)
	}
	return nil
}

// checkRefused checks the Refused of a report.
func checkRefused(all []RefusedOutcome) error {
	if len(all) > MaxRefused {
		return invalid("Refused", "%d: at most %d", len(all), MaxRefused)
	}
	for i, o := range all {
		if err := checkText(fmt.Sprintf("Refused[%d].Error", i), o.Error); err != nil {
			return err
		}
		if o.Waited < 0 || o.Waited > check.MaxDelay {
			return invalid(fmt.Sprintf("Refused[%d].Waited", i), "%v: between 0 and %v", o.Waited, check.MaxDelay)
		}
	}
	return nil
}

// CheckRuns returns an [*queue.InvalidError] for what [Fleet].Runs does not accept. Backends call
// it first.
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
		if s.Age < 0 || s.Age > check.MaxDelay {
			return invalid(field("Age"), "%v: between 0 and %v", s.Age, check.MaxDelay)
		}
		if min(s.Done, s.Failed, s.Dead, s.Lost, int64(s.Ran), int64(s.Waited)) < 0 {
			return invalid(fmt.Sprintf("Stats[%d]", i), "a count below 0")
		}
		for _, h := range []queue.Histogram{s.RunTimes, s.WaitTimes} {
			if len(h) > queue.MaxBuckets {
				return invalid(fmt.Sprintf("Stats[%d]", i), "%d buckets: at most %d", len(h), queue.MaxBuckets)
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
