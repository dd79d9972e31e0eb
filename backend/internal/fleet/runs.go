package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/errandhq/errand/queue/driver"
)

// FirstRuns orders runs by worker, Since and ID, and returns the first most of each worker. It
// reuses the memory of all.
func FirstRuns(all []driver.RunningJob, most int) []driver.RunningJob {
	slices.SortFunc(all, func(a, b driver.RunningJob) int {
		return cmp.Or(strings.Compare(a.Worker, b.Worker), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	first := all[:0]
	worker, n := "", 0
	for _, run := range all {
		if run.Worker != worker {
			worker, n = run.Worker, 0
		}
		if n++; n <= most {
			first = append(first, run)
		}
	}
	return first
}
