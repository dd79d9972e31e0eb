// Package schedules has the rules by which backends change stored schedules. Each function returns
// the state that follows, or nil if nothing changes. It leaves the state before as it is.
package schedules

import (
	"cmp"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// RetryTick is how long a backend leaves a schedule alone that it could not fire.
const RetryTick = time.Minute

// State is a stored schedule.
type State struct {
	queue.ScheduleRecord
	Digest  string // of the text that code has declared last; "" if it has not declared the schedule
	Deleted bool   // by a person; kept because code declares it
}

// IsGone reports whether the state need not be stored any longer.
func (s *State) IsGone() bool { return s.Deleted && s.Digest == "" }

// Change returns the state that follows was at a time. was is nil if there is none. i is the index
// of the schedule's name in the call.
type Change func(i int, was *State, at time.Time) *State

// Set returns the change that a person's schedules make.
func Set(schedules []queue.Schedule) (names []string, _ Change) {
	return namesOf(schedules), func(i int, was *State, at time.Time) *State {
		next := replace(was, schedules[i], at)
		next.Edited = next.Declared
		return next
	}
}

// Declare returns the change that a program's schedules make at its start. A change that moves only
// the Release does not change the Version. With the same Spec and Zone, the next tick stays: a new
// payload in each release neither puts off "@every 24h" nor drops a tick that was missed.
func Declare(d queue.Declaration) (names []string, _ Change) {
	release := d.Order()
	return namesOf(d.Schedules), func(i int, was *State, at time.Time) *State {
		s := d.Schedules[i]
		digest := s.Digest()
		switch {
		case was != nil && (was.Release > release || was.Release == release && was.Digest == digest):
			return Rewound(was, at)
		case was != nil && was.Digest == digest:
			next := *cmp.Or(Rewound(was, at), was)
			next.Release = release
			return &next
		}
		keepsPause := was != nil && !was.Deleted && was.Edited && was.Paused
		s.Paused = s.Paused || keepsPause
		next := replace(was, s, at)
		next.Declared, next.Release, next.Digest, next.Edited = true, release, digest, keepsPause
		if was != nil && was.Spec == s.Spec && was.Zone == s.Zone && !was.Next.IsZero() && !next.Next.IsZero() && Rewound(was, at) == nil {
			next.Next = was.Next
		}
		return next
	}
}

// Pause returns the change that pauses or resumes the named schedule.
func Pause(paused bool, name string) (names []string, _ Change) {
	return []string{name}, func(_ int, was *State, at time.Time) *State {
		if was == nil || was.Deleted || was.Paused == paused {
			return nil
		}
		next := *was
		next.Paused, next.Edited = paused, was.Declared
		return reckon(next, at)
	}
}

// Rewind returns the change that follows when the server's clock was set back: see [Rewound].
func Rewind(all []queue.ScheduleRecord) (names []string, _ Change) {
	for _, r := range all {
		if r.Every() > 0 && !r.Next.IsZero() {
			names = append(names, r.Name)
		}
	}
	return names, func(_ int, was *State, at time.Time) *State { return Rewound(was, at) }
}

// Rewound returns was with a next tick that counts anew from at, if it is an "@every" whose next
// tick is further away than its interval. Otherwise it returns nil. The clock has been set back
// then: the schedule would be silent until it comes to the old time again. Other schedules go by
// that time, and fire no tick twice.
func Rewound(was *State, at time.Time) *State {
	if was == nil || was.Next.IsZero() {
		return nil
	}
	if every := was.Every(); every == 0 || was.Next.Sub(at) <= every+time.Second {
		return nil
	}
	return reckon(*was, at)
}

// Delete returns the change that deletes the named schedules.
func Delete(names []string) (distinct []string, _ Change) {
	return unique(names), func(_ int, was *State, at time.Time) *State {
		if was == nil || was.Deleted {
			return nil
		}
		next := *was
		next.Deleted = true
		return reckon(next, at)
	}
}

// replace returns was with the fields of s, changed at that time.
func replace(was *State, s queue.Schedule, at time.Time) *State {
	var next State
	if was != nil {
		next = *was
	}
	next.Schedule = s.Clone()
	next.Missed = cmp.Or(s.Missed, queue.MissedLast)
	next.Deleted = false
	return reckon(next, at)
}

// reckon returns next, changed at that time, with the tick that follows it. There is none if the
// schedule is paused, or if a person has written an expression into its row that nobody can read.
func reckon(next State, at time.Time) *State {
	next.Version++
	next.UpdatedAt, next.Next = at, time.Time{}
	if !next.Paused && !next.Deleted {
		next.Next, _ = next.NextTick(at, next.LastTick)
	}
	return &next
}

// Fired returns the state after the jobs of the ticks up to now were enqueued. next is the tick
// that follows.
func (s *State) Fired(jobs []*queue.Job, next time.Time) *State {
	after := *s
	after.Next = next
	for _, j := range jobs {
		_, after.LastTick, _ = queue.TickOf(j)
		after.LastJob = j.ID
		if j.Duplicate {
			after.Skipped++
		}
	}
	return &after
}

// CheckJobs checks the jobs of a schedule's ticks as [queue.Job.Check] does, and their payload,
// which is the same for all, once.
func CheckJobs(jobs []*queue.Job, maxPayload int) error {
	for i, j := range jobs {
		if i > 0 {
			bare := *j
			bare.Payload = nil
			j = &bare
		}
		if err := j.Check(maxPayload); err != nil {
			return err
		}
	}
	return nil
}

func namesOf(schedules []queue.Schedule) (names []string) {
	for _, s := range schedules {
		names = append(names, s.Name)
	}
	return names
}

// unique returns the names in order, each once.
func unique(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
