package sqlkit

import "github.com/errandhq/errand/queue"

// Reassigned is a claimed job, and the worker that is to hold it instead.
type Reassigned struct {
	Job *queue.Job
	To  string
}

// ReassignedOf pairs the jobs of a call of Reassign with their workers.
func ReassignedOf(workers []string, jobs []*queue.Job) []Reassigned {
	all := make([]Reassigned, len(jobs))
	for i, job := range jobs {
		all[i] = Reassigned{job, workers[i]}
	}
	return all
}

// Apply sets the Worker of the jobs, but for those that are left.
func Apply(all []Reassigned, left []*queue.Job) {
	isLeft := make(map[*queue.Job]bool, len(left))
	for _, job := range left {
		isLeft[job] = true
	}
	for _, r := range all {
		if !isLeft[r.Job] {
			r.Job.Worker = r.To
		}
	}
}
