package postgres

import (
	"slices"
	"time"
)

// recentTimes are how long the last four statements of one sort took, each without timePerJob for
// every job that it returned. Who measures differs: claims and round trips are timed by this
// process, registrations by the server. The zero value has none.
type recentTimes struct {
	took [4]time.Duration
	n    int
}

// add records a statement. It returns the statement's time without timePerJob.
func (t *recentTimes) add(took time.Duration, jobs int) (excess time.Duration) {
	excess = max(took-time.Duration(jobs)*timePerJob, 0)
	t.took[t.n%len(t.took)] = excess
	t.n++
	return excess
}

// most returns the longest of the times; 0 without any.
func (t *recentTimes) most() time.Duration { return slices.Max(t.took[:]) }

// isFull reports whether there are four.
func (t *recentTimes) isFull() bool { return t.n >= len(t.took) }

// allTook reports whether there are four that all took at least this time.
func (t *recentTimes) allTook(least time.Duration) bool {
	return t.isFull() && slices.Min(t.took[:]) >= least
}
