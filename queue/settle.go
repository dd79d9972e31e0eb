package queue

import (
	"context"
	"time"
)

const (
	// maxSettle is the most outcomes of one call of Settle.
	maxSettle = 1000
	// settleTimeout bounds a Settle whose answer never arrives.
	settleTimeout = 10 * time.Second
)

// settleLoop settles the finished jobs, one batch after the other. A lone job waits for nothing,
// and under load the batches grow by themselves. It returns when the last outcome is settled, or
// when ctx ends.
//
// After a failure it retries without limit. Each failure halves the next batch, so that an outcome
// that the backend cannot record is alone in its batch at last. If the backend refuses that outcome
// again after it has recorded other outcomes, settleAlone retries it, and the others do not wait.
func (r *run) settleLoop(ctx context.Context) {
	log := r.watchCalls("settle")
	size := maxSettle
	for {
		batch := r.takeFinished(size)
		if len(batch) == 0 {
			if !r.awaitFinished(ctx) {
				return
			}
			continue
		}
		lost, err := r.settleBatch(ctx, batch)
		if err != nil && log.failures == 0 && r.setAside(batch) {
			r.settleDone.Go(func() { r.settleAlone(ctx, batch, err) })
			continue
		}
		pause := log.report(err)
		if err == nil {
			size = min(2*size, maxSettle)
			r.endHolds(batch, lost)
			continue
		}
		size = max(len(batch)/2, 1)
		r.putBack(batch)
		if !sleep(ctx, pause) {
			return
		}
	}
}

// settleAlone retries, at long intervals, an outcome that the backend refuses while it records
// other outcomes. It retries once more when the worker stops.
func (r *run) settleAlone(ctx context.Context, batch []*heldJob, err error) {
	job := batch[0].job
	r.Logger.Error("errand: outcome cannot be recorded, will retry", append(jobAttrs(job), "error", err)...)
	isLast := false
	for pause := longestPause; !isLast; pause = min(2*pause, time.Minute) {
		select {
		case <-time.After(pause):
		case <-r.last:
			isLast = true
		}
		if lost, err := r.settleBatch(ctx, batch); err == nil {
			r.Logger.Info("errand: outcome recorded after retries", jobAttrs(job)...)
			r.endHolds(batch, lost)
			return
		}
	}
}

// awaitFinished waits until there may be outcomes. It reports false if there will be none.
func (r *run) awaitFinished(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-r.settle:
		return true
	case <-r.last:
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.held.finished) > 0
	}
}

// settleBatch calls Settle for the outcomes of the batch.
func (r *run) settleBatch(ctx context.Context, batch []*heldJob) (lost []*Job, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	outcomes := make([]Outcome, len(batch))
	for i, h := range batch {
		outcomes[i] = h.outcome
	}
	return r.Backend.Settle(ctx, nil, outcomes...)
}

// takeFinished takes at most n finished jobs, the oldest first.
func (r *run) takeFinished(n int) []*heldJob {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held.take(n)
}

// putBack puts a batch that could not be settled behind the other finished jobs.
func (r *run) putBack(batch []*heldJob) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held.putBack(batch)
}

// setAside sets the batch aside if it is a single outcome that was refused before, and reports
// whether it was. The job's lease is extended from now on, however long the retries take.
func (r *run) setAside(batch []*heldJob) bool {
	if len(batch) > 1 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := batch[0]
	if !h.retried {
		return false
	}
	r.held.setAside(h)
	return true
}

// endHolds ends the worker's hold on jobs that are settled or lost, and notes when the retried and
// released jobs are due. A limited queue has room for another job now.
func (r *run) endHolds(batch []*heldJob, lost []*Job) {
	var events []Event
	if r.Observe != nil {
		events = eventsOf(batch, lost) // before noteSettled clears the batch
	}
	r.noteSettled(batch, lost)
	signal(r.room)
	r.observe(events...)
}

// noteSettled is endHolds without its signal and events.
func (r *run) noteSettled(batch []*heldJob, lost []*Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range lost {
		if h := r.held.jobs[job]; h != nil {
			// After a failed Settle the job is as likely to be lost because that Settle had
			// recorded it.
			r.Logger.Warn("errand: outcome not recorded, the worker no longer holds the job",
				append(jobAttrs(job), "retried", h.retried)...)
		}
	}
	now := time.Now()
	for _, h := range batch {
		if o := h.outcome; o.Action == Retry || o.Action == Release {
			r.noteDue(now.Add(max(o.Delay, 0)))
		}
		if h.job.Limited || h.job.Ordered {
			r.noteDue(now)
		}
		r.held.settled(h)
	}
}
