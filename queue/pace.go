package queue

import "time"

// pace is a moving average of how long handlers take. Its zero value has seen none.
type pace struct {
	mean time.Duration
	seen bool
}

// add counts a handler that took d.
func (p *pace) add(d time.Duration) {
	if !p.seen {
		p.mean, p.seen = d, true
		return
	}
	p.mean += (d - p.mean) / 16
}

// ahead is how many jobs, beyond those that run, slots of them are expected to
// start within d: none before the first has been timed, or if they take longer.
func (p *pace) ahead(d time.Duration, slots int) int {
	if !p.seen || p.mean > d || d <= 0 {
		return 0
	}
	rounds := d / max(p.mean, time.Microsecond)
	return int(min(rounds*time.Duration(slots), maxPrefetch))
}
