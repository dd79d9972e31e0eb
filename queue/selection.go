package queue

import "slices"

// Selection chooses jobs for [driver.Canceller] and [driver.Editor]. A job has to match all fields
// that are set. At least one besides Status must be set: Status narrows the choice. For all jobs of
// the database make a call for each queue.
type Selection struct {
	// IDs are the jobs' IDs, in any order and any number. nil means any ID. An empty slice that is
	// not nil is an error: a program that has found no job must not act on all jobs.
	IDs   []int64
	Queue string
	Kind  string
	Group string
	Key   string
	// Status is one of the statuses that the call acts on; "" means all of them. For Redrive ""
	// means [StatusDead].
	Status Status
}

// Check returns an [*InvalidError] if no field besides Status is set, if a field is no text that a
// database can store, or if Status is no status that the call acts on. Backends call it first.
func (w Selection) Check(statuses ...Status) error {
	if w.IDs == nil && w.Queue == "" && w.Kind == "" && w.Group == "" && w.Key == "" {
		return invalid("Selection", "chooses no jobs: set IDs, Queue, Kind, Group or Key; for all jobs of a queue set Queue")
	}
	if w.IDs != nil && len(w.IDs) == 0 {
		return invalid("Selection.IDs", "empty, but not nil: nil chooses any job")
	}
	if w.Status != "" && !slices.Contains(statuses, w.Status) {
		return invalid("Selection.Status", "%q: one of %q", w.Status, statuses)
	}
	if err := checkText("Selection.Group", w.Group); err != nil {
		return err
	}
	return checkTexts(w.Queue, w.Kind, w.Key)
}

// Of returns the statuses to act on: Status alone if it is set, otherwise all of the given ones.
func (w Selection) Of(statuses ...Status) []Status {
	if w.Status != "" {
		return []Status{w.Status}
	}
	return statuses
}

// Matches reports whether r has all that is set but Status, for backends that filter in Go.
func (w Selection) Matches(r *Record) bool {
	return (w.IDs == nil || slices.Contains(w.IDs, r.ID)) &&
		(w.Queue == "" || w.Queue == r.Queue) &&
		(w.Kind == "" || w.Kind == r.Kind) &&
		(w.Group == "" || w.Group == r.Group) &&
		(w.Key == "" || w.Key == r.Key)
}
