package memory

import (
	"cmp"
	"slices"

	"github.com/errandhq/errand/queue"
)

// Stored is a job with what the assertions of package queuetest need besides its [queue.Record].
type Stored struct {
	queue.Record
	Through queue.DB // the handle that the job was enqueued through
	Open    bool     // that handle is a transaction that has not ended
}

// Stored returns the jobs of the kind, or of all kinds if it is "", newest first. Unlike Jobs it
// includes jobs that open transactions have enqueued.
func (q *Queue) Stored(kind string) (jobs []Stored) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.rows {
		open := r.committed.Status == ""
		rec := *r.visibleTo(r.tx)
		if !open {
			rec = r.committed
		}
		if kind == "" || kind == rec.Kind {
			rec.Job = copyOf(rec.Job)
			jobs = append(jobs, Stored{rec, r.through, open})
		}
	}
	slices.SortFunc(jobs, func(a, b Stored) int { return cmp.Compare(b.ID, a.ID) })
	return jobs
}
