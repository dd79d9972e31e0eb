package queue

import (
	"context"
	"time"
)

const (
	// maxSettle is the most outcomes of one Settle.
	maxSettle = 1000
	// settleTimeout bounds a Settle that the network has swallowed.
	settleTimeout = 10 * time.Second
)

// settleFinished settles whatever has finished whenever the settling before is
// done: a lone job waits for nothing, and under load the batches grow by
// themselves. It returns when the last outcome is settled, or ctx ends.
//
// What could not be settled is tried again, for as long as it takes; each failure
// halves the next batch, so that an outcome that the backend cannot record ends
// up alone. If that is refused again after others have been recorded, it goes its
// own way and does not keep them waiting.
func (r *run) settleFinished(ctx context.Context) {
	db := r.watch("settle")
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
		if err != nil && db.failures == 0 && r.setAside(batch) {
			r.settling.Go(func() { r.settleAlone(ctx, batch, err) })
			continue
		}
		pause := db.report(err)
		if err == nil {
			size = min(2*size, maxSettle)
			r.forget(batch, lost)
			continue
		}
		size = max(len(batch)/2, 1)
		r.putBack(batch)
		if !sleep(ctx, pause) {
			return
		}
	}
}

// settleAlone tries on, at long intervals, with an outcome that the backend refuses
// while it records others; once more when the worker stops.
func (r *run) settleAlone(ctx context.Context, batch []*flight, err error) {
	job := batch[0].job
	r.Logger.Error("errand: outcome cannot be recorded, will retry", append(jobAttrs(job), "error", err)...)
	stopping := false
	for pause := longestPause; !stopping; pause = min(2*pause, time.Minute) {
		select {
		case <-time.After(pause):
		case <-r.last:
			stopping = true
		}
		if lost, err := r.settleBatch(ctx, batch); err == nil {
			r.Logger.Info("errand: outcome recorded at last", jobAttrs(job)...)
			r.forget(batch, lost)
			return
		}
	}
}

// awaitFinished waits until there may be outcomes; false if none will come.
func (r *run) awaitFinished(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-r.settle:
		return true
	case <-r.last:
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.finished) > 0
	}
}

func (r *run) settleBatch(ctx context.Context, batch []*flight) (lost []*Job, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	outcomes := make([]Outcome, len(batch))
	for i, f := range batch {
		outcomes[i] = f.outcome
	}
	return r.Backend.Settle(ctx, nil, outcomes...)
}

// takeFinished takes at most n of what has an outcome, the oldest first.
func (r *run) takeFinished(n int) []*flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(n, len(r.finished))
	batch := r.finished[:n:n]
	r.finished = r.finished[n:]
	for _, f := range batch {
		f.settling = true
	}
	return batch
}

// putBack returns a batch that could not be settled, behind the others.
func (r *run) putBack(batch []*flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range batch {
		f.settling, f.retried = false, true
	}
	r.finished = append(r.finished, batch...)
}

// setAside says that the batch is a single outcome that was refused before. Its
// lease is extended from now on, however long it takes.
func (r *run) setAside(batch []*flight) bool {
	if len(batch) > 1 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := batch[0]
	if f.retried {
		f.settling = false
	}
	return f.retried
}

// forget drops what is settled, or was lost, from what the worker holds, and
// notes when what was given back is due again.
func (r *run) forget(batch []*flight, lost []*Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range lost {
		if f := r.held[job]; f != nil {
			// After a failed try this is as likely to mean that it had succeeded.
			r.Logger.Warn("errand: outcome not recorded: the job is not held any more",
				append(jobAttrs(job), "tried_before", f.retried)...)
		}
	}
	now := time.Now()
	for _, f := range batch {
		if o := f.outcome; o.Action == Retry || o.Action == Release {
			r.noteDue(now.Add(max(o.Delay, 0)))
		}
		r.drop(f)
	}
	r.unsettled -= len(batch)
	signal(r.room)
}
