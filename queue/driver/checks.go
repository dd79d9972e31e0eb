package driver

import (
	"cmp"
	"fmt"
	"time"

	"github.com/errandhq/errand/internal/check"
	"github.com/errandhq/errand/queue"
)

// CheckReassign returns an [*queue.InvalidError] for what [Reassigner] does not accept. Backends
// call it first.
func CheckReassign(workers []string, jobs []*queue.Job) error {
	if len(workers) != len(jobs) {
		return invalid("Workers", "%d names for %d jobs: one for each", len(workers), len(jobs))
	}
	for i, job := range jobs {
		if job == nil {
			return invalid("Job", "nil")
		}
		if err := checkName("Workers", workers[i]); err != nil {
			return err
		}
	}
	return nil
}

// CheckLease returns an [*queue.InvalidError] unless lease is between a millisecond and a year.
// Backends call it first in Extend.
func CheckLease(lease time.Duration) error { return asError("Lease", check.Lease(lease)) }

// CheckQueue returns an [*queue.InvalidError] if no queue can have that name, for backends. "" is
// not the default queue here: an empty field of a form must not pause it.
func CheckQueue(name string) error { return checkName("Queue", name) }

// CheckTarget returns an [*queue.InvalidError] unless target is one queue, group, kind or schedule,
// with a name that there can be. Backends call it first when they pause. A group without a name is
// not its queue: the empty name of a tenant must not pause all tenants.
func CheckTarget(t queue.Target) error {
	switch t {
	case queue.Target{}:
		return invalid("Target", "empty: name a queue, a group, a kind or a schedule")
	case queue.Target{Queue: t.Queue}:
		return CheckQueue(t.Queue)
	case queue.Target{Kind: t.Kind}:
		return checkName("Kind", t.Kind)
	case queue.Target{Schedule: t.Schedule}:
		return checkName("Schedule", t.Schedule)
	case queue.Target{Group: t.Group, InQueue: t.InQueue}:
		if t.Group == "" {
			return invalid("Group", "empty: set Queue instead of InQueue for the whole queue")
		}
		return cmp.Or(checkName("InQueue", t.InQueue), asError("Group", check.Group(t.Group)))
	}
	return invalid("Target", "%s and more: name one of a queue, a group, a kind and a schedule", t)
}

// CheckSchedules returns an [*queue.InvalidError] that names the first bad field and its schedule.
// maxPayload is the longest payload in bytes; 0 means [queue.DefaultMaxPayload]. Two schedules with
// one name are an error. Backends call it first when they set schedules.
func CheckSchedules(maxPayload int, schedules ...queue.Schedule) error {
	return queue.Declaration{Schedules: schedules}.Check(maxPayload)
}

// CheckScheduleNames returns an [*queue.InvalidError] for the first name that no schedule can have.
// Backends call it first when they delete schedules.
func CheckScheduleNames(names ...string) error {
	for _, name := range names {
		if err := checkName("Schedule.Name", name); err != nil {
			return err
		}
	}
	return nil
}

// invalid returns the error for bad input.
func invalid(field, format string, args ...any) *queue.InvalidError {
	return &queue.InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// asError returns an [*queue.InvalidError], or nil if there is no problem.
func asError(field, problem string) error {
	if problem == "" {
		return nil
	}
	return &queue.InvalidError{Field: field, Problem: problem}
}

func checkName(field, name string) error { return asError(field, check.Name(name)) }

func checkText(field, s string) error { return asError(field, check.Text(s)) }
