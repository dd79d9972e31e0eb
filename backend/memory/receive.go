package memory

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// receivedSource is the Source of a job that Receive has enqueued.
type receivedSource struct {
	name  string
	until time.Time // when it is forgotten
}

// Receive implements [driver.Receiver].
func (q *Queue) Receive(ctx context.Context, transfers ...driver.Transfer) (received int, err error) {
	for _, t := range transfers {
		if err := t.Check(q.opts.MaxPayload); err != nil {
			return 0, err
		}
	}
	if len(transfers) == 0 {
		return 0, nil
	}
	err = q.do(ctx, "receive", nil, func() *memTx {
		at := now()
		q.forgetSources(at)
		for _, t := range transfers {
			if _, busy := q.holder(nil, keyOf(t.Job)); busy != nil {
				return busy
			}
		}
		for _, t := range transfers {
			if q.sources[t.Source] {
				continue
			}
			q.sources[t.Source] = true
			q.sourcesInOrder = append(q.sourcesInOrder, receivedSource{t.Source, at.Add(driver.TransferWindow)})
			q.insert(nil, nil, t.Job, at)
			q.keepPast(t.Job)
			received++
		}
		return nil
	})
	if err == nil {
		q.runInline(ctx)
	}
	return received, err
}

// forgetSources forgets the sources whose window is over. The caller holds q.mu.
func (q *Queue) forgetSources(at time.Time) {
	n := 0
	for n < len(q.sourcesInOrder) && !at.Before(q.sourcesInOrder[n].until) {
		delete(q.sources, q.sourcesInOrder[n].name)
		n++
	}
	q.sourcesInOrder = q.sourcesInOrder[n:]
}

// keepPast writes what the job was before it was received, if it was written anew. The caller holds
// q.mu.
func (q *Queue) keepPast(j *queue.Job) {
	if j.Duplicate || j.Replaced {
		return
	}
	r := q.rows[j.ID]
	next := r.committed
	next.Attempt, next.LastError = j.Attempt, j.LastError
	if !j.CreatedAt.IsZero() {
		next.CreatedAt = j.CreatedAt.Round(0)
	}
	q.write(nil, r, next)
}
