package engine

import (
	"time"

	"github.com/errandhq/errand/queue"
)

const (
	// maxClaim is the most jobs of one claim: a longer batch is no faster. Twice as many may wait,
	// so that one claim is under way while slots work through the jobs of the claim before.
	maxClaim    = 1000
	maxPrefetch = 2 * maxClaim
	// maxUnsettled is how many outcomes may wait to be settled before the worker stops claiming. It
	// keeps a slow database from falling further behind.
	maxUnsettled = 5000
	// groupPrefetch divides Prefetch where jobs have groups: a job of another group should not wait
	// behind many that were claimed before it came.
	groupPrefetch = 4
	// lastTriesEach is how many jobs in their last attempt start without a claim ahead, for each one
	// that was released. With 1, a worker that has only such jobs released each of them once.
	lastTriesEach = 4
	// claimBytes bounds the payloads and headers of one claim, and of the jobs that wait besides.
	claimBytes = 16 << 20
)

// ahead decides how many jobs a worker claims ahead, beyond those that have a free slot. It has no
// lock of its own.
type ahead struct {
	pace       pace  // how long handlers take
	sizes      sizes // how long jobs are
	hasBacklog bool  // the last claim came back full, or with more jobs than slots
	hasGroups  bool  // the jobs of the last claim have groups
	most       int   // how many jobs to claim ahead at most
	lastTries  int   // jobs in their last attempt to start before the next claim ahead
}

// addClaim notes whether there is a backlog, and whether the jobs of the last claim have groups.
// There is a backlog if the claim came back full, and if it brought more jobs than there are slots:
// then jobs arrive faster than one by one, and a claim for free slots alone would be small and
// costly.
func (a *ahead) addClaim(isFull bool, jobs []*queue.Job, slots int) {
	a.hasBacklog = isFull || len(jobs) > slots
	if len(jobs) > 0 {
		a.hasGroups = jobs[0].Group != ""
	}
	if !a.hasBacklog {
		a.lastTries = 0
	}
}

// addLastTries notes how many jobs in their last attempt a claim has started and released, and how
// many of its jobs were claimed ahead. The next claims are for free slots only, until lastTriesEach
// times as many such jobs have started as were released, or until claims bring none because other
// workers have them. If they were many, later claims go only as far ahead as this one went with the
// other jobs, and then further.
func (a *ahead) addLastTries(started, released, beyond int) {
	if started == 0 {
		a.lastTries /= 2
	}
	a.lastTries = max(a.lastTries-started, 0) + lastTriesEach*released
	switch {
	case released > beyond/10:
		a.most = max(beyond-released, 1)
	case beyond > 0:
		a.most = min(2*a.most, maxPrefetch)
	}
}

// jobs returns how many jobs to claim ahead: as many as that many slots will start within prefetch.
func (a *ahead) jobs(prefetch time.Duration, slots int) int {
	if !a.hasBacklog || a.lastTries > 0 {
		return 0
	}
	if a.hasGroups {
		prefetch /= groupPrefetch
	}
	return min(a.pace.jobsWithin(prefetch, slots), a.most)
}
