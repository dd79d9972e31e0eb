package queue

import (
	"fmt"
	"slices"
	"time"
)

// Foreign ticks.
//
// Problem: a process stores the next tick as its own time zone data says, and a process with other
// data fires it. If a zone's clocks differ by an hour between the two, the tick's own time is still
// to come there, and a daily job would run a second time an hour later. Rule: a stored tick that is
// no time of the Spec here is foreign. It is fired, and stands for the time of this process that
// follows it, its twin, which is left out. The twin is nearer to the tick than the time before, and
// at most farthestTwin away. Bounds: only the process that fires a foreign tick knows it. If others
// fire between the two, or the schedule is set anew, the twin is fired, too. Shown by:
// TestForeignTicks, TestForeignTick, TestForeignTickIsLogged.

// farthestTwin is how far apart the times of two releases of the data are at most.
const farthestTwin = 3 * time.Hour

// isForeign reports whether the tick is from other time zone data. UTC is the same in all data.
func (t times) isForeign(tick time.Time) bool {
	return t.zone != time.UTC && !t.spec.Matches(tick.In(t.zone))
}

// twinOf returns the time that a foreign tick stands for. It is zero if the tick is not foreign, or
// if it is as near to the time before it.
func (t times) twinOf(tick time.Time) time.Time {
	if !t.isForeign(tick) {
		return time.Time{}
	}
	tick = tick.In(t.zone)
	twin := t.spec.Next(tick)
	distance := twin.Sub(tick)
	if twin.IsZero() || distance > farthestTwin {
		return time.Time{}
	}
	if before := t.spec.Next(tick.Add(-distance - time.Second)); !before.Equal(twin) {
		return time.Time{}
	}
	return twin
}

// due returns the latest ticks from first to now, at most most, and the tick that follows. The twin
// of first is left out.
func (t times) due(first, now time.Time, most int) (due []time.Time, next time.Time) {
	twin := t.twinOf(first)
	if twin.IsZero() {
		return t.spec.Due(first.In(t.zone), now, most)
	}
	due, next = t.spec.Due(first.In(t.zone), now, most+1)
	due = slices.DeleteFunc(due, twin.Equal)
	if next.Equal(twin) {
		next = t.spec.Next(twin)
	}
	return due[max(len(due)-most, 0):], next
}

// CheckTick returns an error if tick, the next tick as it is stored, is no time of Spec by the time
// zone data of this process. [Schedule.Fire] fires it all the same, so the error is a warning for
// the operator. It is an [*InvalidError] if the schedule cannot be read.
func (s Schedule) CheckTick(tick time.Time) error {
	t, err := s.parse()
	if err != nil || !t.isForeign(tick) {
		return err
	}
	text := fmt.Sprintf("schedule %q: fired its tick %s, which is no time of %q by this process' data of zone %s",
		s.Name, tick.UTC().Format(time.RFC3339), s.Spec, s.Zone)
	if twin := t.twinOf(tick); !twin.IsZero() {
		text += fmt.Sprintf(", in place of %s", twin.UTC().Format(time.RFC3339))
	}
	return foreignTick(text + ": give all workers the same time zone data")
}

// foreignTick is the error of a foreign tick, which was fired.
type foreignTick string

func (text foreignTick) Error() string { return string(text) }

// IsForeignTick distinguishes the error from failures, for package driver.
func (text foreignTick) IsForeignTick() bool { return true }
