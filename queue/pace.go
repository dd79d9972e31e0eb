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

// sizes is a moving average of how long jobs are, in bytes. Its zero value has seen none.
type sizes struct{ mean int }

// add counts a job.
func (s *sizes) add(job *Job) { s.mean += (job.size() - s.mean) / 8 }

// size is how long the payload and the headers are.
func (j *Job) size() int {
	n := len(j.Payload)
	for k, v := range j.Headers {
		n += len(k) + len(v)
	}
	return n
}

// fit is how many jobs, at least one, have so many bytes together.
func (s *sizes) fit(bytes int) int { return max(bytes/max(s.mean, 1), 1) }

// atLeast raises the average to d, after a job has waited for d: the handlers that run take longer
// than the average of the handlers that have returned.
func (p *pace) atLeast(d time.Duration) { p.mean = max(p.mean, d) }

// ahead is how many jobs, beyond those that run, slots of them are expected to
// start within d: none before the first has been timed, or if they take longer.
func (p *pace) ahead(d time.Duration, slots int) int {
	if !p.seen || p.mean > d || d <= 0 {
		return 0
	}
	rounds := min(d/max(p.mean, time.Microsecond), maxPrefetch)
	return int(min(rounds*time.Duration(slots), maxPrefetch))
}
