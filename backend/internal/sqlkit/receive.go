package sqlkit

import (
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Fresh returns the jobs of the transfers whose sources are fresh, each source once. It removes
// them from isFresh.
func Fresh(transfers []driver.Transfer, isFresh map[string]bool) (jobs []*queue.Job) {
	for _, t := range transfers {
		if isFresh[t.Source] {
			delete(isFresh, t.Source)
			jobs = append(jobs, t.Job)
		}
	}
	return jobs
}
