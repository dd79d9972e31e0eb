package engine

import (
	"time"

	"github.com/errandhq/errand/queue"
)

// pace is a moving average of how long handlers take. Its zero value has seen none.
type pace struct {
	mean    time.Duration
	hasMean bool
}

// add counts a handler that took d.
func (p *pace) add(d time.Duration) {
	if !p.hasMean {
		p.mean, p.hasMean = d, true
		return
	}
	p.mean += (d - p.mean) / 16
}

// atLeast raises the average to d, after a job has waited for a slot for d: the handlers that run
// take longer than the average of the handlers that have returned.
func (p *pace) atLeast(d time.Duration) { p.mean = max(p.mean, d) }

// jobsWithin returns how many jobs, beyond the jobs that run, that many slots will start within d.
// It returns 0 before the first handler has returned, and if handlers take longer than d.
func (p *pace) jobsWithin(d time.Duration, slots int) int {
	if !p.hasMean || p.mean > d || d <= 0 {
		return 0
	}
	rounds := min(d/max(p.mean, time.Microsecond), maxPrefetch)
	return int(min(rounds*time.Duration(slots), maxPrefetch))
}

// sizes is a moving average of how long jobs are, in bytes. Its zero value has seen none.
type sizes struct{ mean int }

// add counts a job.
func (s *sizes) add(job *queue.Job) { s.mean += (sizeOf(job) - s.mean) / 8 }

// fitting returns how many jobs of average size, at least one, fit into that many bytes.
func (s *sizes) fitting(bytes int) int { return max(bytes/max(s.mean, 1), 1) }

// sizeOf returns the length of the payload and the headers, in bytes.
func sizeOf(j *queue.Job) int {
	n := len(j.Payload)
	for k, v := range j.Headers {
		n += len(k) + len(v)
	}
	return n
}
