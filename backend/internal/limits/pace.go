package limits

import "time"

// WalkTime bounds how long a claim goes on while it comes only to jobs that it may not claim.
const WalkTime = 30 * time.Millisecond

// RestOfClaim returns how long the rest of a claim may take that has jobs, which do not start
// before it returns: a tenth of the lease, and at most that long. A lease below 100 ms is no
// worker's: a tenth of it would be less than a server takes to answer.
func RestOfClaim(lease, most time.Duration) time.Duration {
	if lease < 100*time.Millisecond {
		return most
	}
	return min(lease/10, most)
}

// longestPause is how long a worker sleeps at most while there are jobs that no claim has looked
// at. A million groups that are blocked so take a tenth of a worker's time.
const longestPause = 10 * WalkTime

// Pace tells how soon to look behind the jobs that the last claims of a queue have looked at. The
// zero value is that of a queue whose last claim has looked at all.
type Pace struct {
	hasMore bool
	empty   int // how many claims in turn have found nothing, and had more to look at
}

// Note records a claim: whether it has found jobs, and whether there are others that it has not
// looked at.
func (p *Pace) Note(found, hasMore bool) {
	p.hasMore = hasMore
	if p.empty = min(p.empty+1, 10); found || !hasMore {
		p.empty = 0
	}
}

// Hurry makes the next pauses short: there may be a new job.
func (p *Pace) Hurry() { p.empty = 0 }

// Bound returns until when a worker may sleep: next, where less than 0 means forever, or less. The
// first pause is WalkTime. Each further one is twice as long.
func (p *Pace) Bound(next time.Duration) time.Duration {
	limit := min(WalkTime<<p.empty, longestPause)
	if p.hasMore && (next < 0 || next > limit) {
		return limit
	}
	return next
}

const (
	// lateTokens is how long a worker counts on tokens that have come, and soonest how soon it then
	// claims.
	lateTokens = time.Second
	soonest    = 5 * time.Millisecond
)

// UntilTokens returns until when a worker may sleep if a rate has tokens after wait: next, where
// less than 0 means forever, or less. Below 0 the tokens have come since the last claim: the worker
// may just have been too late to count on them, and the claim that follows may have spent them.
func UntilTokens(next, wait time.Duration) time.Duration {
	switch {
	case wait < -lateTokens:
		return next
	case wait <= 0:
		wait = soonest
	}
	if next < 0 || wait < next {
		return wait
	}
	return next
}
