package reader

import (
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue/driver"
)

// AdviseRefused is what to do about outcomes that the backend refuses.
const AdviseRefused = "mend what the error names, such as a constraint or a trigger on the table jobs: the worker retries until the outcome is recorded. If it stops before, its jobs run again"

// Soon is within which time a worker that was not woken claims a due job: its Poll, and a claim.
const Soon = 10 * time.Second

// Vanished returns the workers that served the queue and handled the kind ("" for any), and have
// vanished, the last one first.
func Vanished(workers []driver.WorkerRecord, name, kind string) []driver.WorkerRecord {
	list := slices.DeleteFunc(slices.Clone(workers), func(w driver.WorkerRecord) bool {
		return !w.Vanished || !slices.Contains(w.Queues, name) || kind != "" && !Handles(w, kind)
	})
	slices.SortFunc(list, func(a, b driver.WorkerRecord) int { return b.SeenAt.Compare(a.SeenAt) })
	return list
}

// Overdue is how long after its last report a worker is late with the next one.
const Overdue = driver.ReportInterval + 3*time.Second

// IsSilent reports whether a worker has missed a report, but does not count as vanished yet.
func IsSilent(w driver.WorkerRecord) bool { return w.Silent > Overdue }

// Claims reports whether the last claim of a worker that reports itself has succeeded.
func Claims(w driver.WorkerRecord) bool { return !IsSilent(w) && w.ClaimError == "" }

// Living returns the workers that have not vanished.
func Living(workers []driver.WorkerRecord) []driver.WorkerRecord {
	return slices.DeleteFunc(slices.Clone(workers), func(w driver.WorkerRecord) bool { return w.Vanished })
}

// IsDraining reports whether the worker is stopping.
func IsDraining(w driver.WorkerRecord) bool { return !w.DrainingAt.IsZero() }

// Handles reports whether the worker claims jobs of the kind.
func Handles(w driver.WorkerRecord, kind string) bool {
	return len(w.Kinds) == 0 || slices.Contains(w.Kinds, kind)
}

// QueuesOf returns the queues that the workers serve.
func QueuesOf(workers []driver.WorkerRecord) (names []string) {
	for _, w := range workers {
		names = append(names, w.Queues...)
	}
	return names
}

// KindsOf returns the kinds that the workers handle.
func KindsOf(workers []driver.WorkerRecord) (names []string) {
	for _, w := range workers {
		names = append(names, w.Kinds...)
	}
	return names
}

// Nearest returns which of names are spelled like name, "" for none.
func Nearest(name string, names []string) string {
	slices.Sort(names)
	return strings.Join(plain.Nearest(name, slices.Compact(names)), ", ")
}
