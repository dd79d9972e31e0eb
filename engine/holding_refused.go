package engine

import (
	"slices"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue/driver"
)

// putBack puts a batch that could not be settled, because of err, behind the others of that kind.
func (held *holding) putBack(batch []*heldJob, err error) {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.jobs.putBack(batch)
	if len(batch) == 1 { // of several outcomes, one may be the cause
		batch[0].refuse(err, time.Now())
	}
}

// setAside sets jobs aside whose outcomes the backend does not record for now, because of err.
// Their leases are extended from now on, however long the retries take.
func (held *holding) setAside(batch []*heldJob, err error) {
	held.mu.Lock()
	defer held.mu.Unlock()
	for _, h := range batch {
		held.jobs.setAside(h)
	}
	held.refuse(batch, err)
}

// noteRefusal notes that the backend has refused the outcomes of jobs that are set aside again.
func (held *holding) noteRefusal(batch []*heldJob, err error) {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.refuse(batch, err)
}

// refuse notes why the backend refuses outcomes. The caller holds held.mu.
func (held *holding) refuse(batch []*heldJob, err error) {
	now := time.Now()
	for _, h := range batch {
		h.refuse(err, now)
	}
}

// refused returns the outcomes that the backend has refused for longer than the pause between two
// retries, as a report has them, and how many there are in all.
func (held *holding) refused() (first []driver.RefusedOutcome, count int) {
	held.mu.Lock()
	defer held.mu.Unlock()
	var all []*heldJob
	for h := range held.jobs.all() {
		if at := h.refused.at; !at.IsZero() && time.Since(at) >= upkeep.LongestPause {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *heldJob) int { return a.refused.at.Compare(b.refused.at) })
	for _, h := range all[:min(len(all), driver.MaxRefused)] {
		first = append(first, driver.RefusedOutcome{ID: h.job.ID, Error: reportText(h.refused.err), Waited: ageOf(h.refused.at)})
	}
	return first, len(all)
}
