package engine

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
)

const (
	// maxSettle is the most outcomes of one call of Settle.
	maxSettle = 1000
	// settleTimeout bounds a Settle whose answer never arrives.
	settleTimeout = 10 * time.Second
	// lockedPause is the pause before outcomes of locked jobs are settled again. The backend waits
	// for the lock, too.
	lockedPause = 100 * time.Millisecond
	// aloneAfter is how long after the first failure an outcome that is alone is logged with its job,
	// and aloneAgain how often then. In an outage of seconds it is not.
	aloneAfter = 10 * time.Second
	aloneAgain = time.Minute
)

// settling settles the outcomes of jobs.
type settling struct {
	*shared
	held      *holding
	wakeups   *wakeups
	reporting *reporting

	done  sync.WaitGroup // the settle loop, and settleAlone's goroutines
	aside chan struct{}  // has an element while one of settleAlone's goroutines calls Settle
	last  chan struct{}  // closed when the last job is finished
}

func newSettling(s *shared, held *holding, w *wakeups, r *reporting) *settling {
	return &settling{shared: s, held: held, wakeups: w, reporting: r, aside: make(chan struct{}, 1), last: make(chan struct{})}
}

// settleLoop settles the finished jobs, one batch after the other. A lone job waits for nothing,
// and under load the batches grow by themselves. It returns when the last outcome is settled, or
// when ctx ends.
//
// After a failure it retries without limit. Outcomes that have failed are in batches of their own,
// which take turns with those of other outcomes. Each failure halves the next of them, so that an
// outcome that the backend cannot record is alone in its batch at last. If the backend refuses that
// outcome again after it has recorded other outcomes, settleAlone retries it, and the others do not
// wait. If it has recorded none for some seconds, the next batch of other outcomes is a large one:
// should all of them fail, later ones need not wait behind them. Outcomes of jobs that a
// transaction has locked, or whose backend has failed while others work, go to settleAlone at once.
func (s *settling) settleLoop(ctx context.Context) {
	log := s.watchCalls("settle")
	size, retries := maxSettle, maxSettle // of the next batch, and of the next with outcomes that have failed
	// The memory of the last batch's outcomes serves the next batch. After a failed call it does not:
	// a backend that ignores the end of its context might still read it.
	var outcomes []queue.Outcome
	var named time.Time // when a job was last logged whose outcome is alone
	for {
		batch := s.held.take(size, retries)
		if len(batch) == 0 {
			if !s.awaitFinished(ctx) {
				return
			}
			continue
		}
		areRetried := batch[0].retried
		outcomes = outcomesOf(batch, outcomes)
		lost, err := s.settleBatch(ctx, outcomes)
		if err != nil {
			outcomes = nil
		}
		clear(outcomes)
		if recorded, locked := splitLocked(batch, err); len(locked) > 0 {
			cause := err
			s.held.setAside(locked, err)
			s.done.Go(func() { s.settleAlone(ctx, locked, cause) })
			batch, err = recorded, nil
		}
		if err != nil && log.Since().IsZero() && shouldSetAside(batch) {
			s.held.setAside(batch, err)
			s.done.Go(func() { s.settleAlone(ctx, batch, err) })
			continue
		}
		pause := log.Report(err)
		if err == nil {
			if areRetried {
				retries = min(2*retries, maxSettle)
			} else {
				size = min(2*size, maxSettle)
			}
			s.endHolds(batch, lost)
			continue
		}
		if len(batch) == 1 && time.Since(log.Since()) >= aloneAfter && time.Since(named) >= aloneAgain {
			named = time.Now()
			s.logRefused(batch[0].job, err)
		}
		half := max(len(batch)/2, 1)
		retries = min(retries, half)
		switch {
		case areRetried:
		case time.Since(log.Since()) < upkeep.LongestPause:
			size = half
		default:
			size = maxSettle
		}
		s.held.putBack(batch, err)
		if !upkeep.Sleep(ctx, pause) {
			return
		}
	}
}

// splitLocked returns the jobs of the batch that are settled after err, and those that a
// transaction has locked, or whose backend did not answer. Both are empty if err is a different
// error.
func splitLocked(batch []*heldJob, err error) (settled, locked []*heldJob) {
	if err == nil {
		return batch, nil
	}
	jobs := unsettledJobs(err)
	for _, h := range batch {
		isLocked := func(j *queue.Job) bool { return j.ID == h.job.ID }
		if slices.ContainsFunc(jobs, isLocked) {
			locked = append(locked, h)
		} else {
			settled = append(settled, h)
		}
	}
	if len(locked) == 0 {
		return nil, nil
	}
	return settled, locked
}

// settleAlone retries outcomes that the backend refuses while it records other outcomes: one
// outcome at long intervals, or those of locked jobs at short ones. It retries once more when the
// worker stops.
func (s *settling) settleAlone(ctx context.Context, batch []*heldJob, refusal error) {
	attrs := jobAttrs(batch[0].job)
	pause, longest := upkeep.LongestPause, time.Minute
	if upkeep.IsPartial(refusal) {
		pause, longest = lockedPause, upkeep.LongestPause
		s.Logger.Warn("errand: one of several backends has failed, outcomes of its jobs are not recorded yet, will retry",
			append(attrs, "jobs", len(batch), "error", refusal)...)
	} else if _, locked := splitLocked(batch, refusal); len(locked) > 0 {
		pause, longest = lockedPause, lockedPause
		s.Logger.Warn("errand: a transaction has locked jobs, their outcomes are not recorded yet, will retry",
			append(attrs, "locked", len(locked), "error", refusal)...)
	} else {
		s.logRefused(batch[0].job, refusal)
	}
	for isLast := false; !isLast; pause = min(2*pause, longest) {
		select {
		case <-time.After(pause):
		case <-s.last:
			isLast = true
		}
		job := batch[0].job // endHolds clears the jobs
		lost, err := s.settleAside(ctx, batch)
		settled, locked := splitLocked(batch, err)
		s.endHolds(settled, lost)
		if err == nil {
			s.failures.write(slog.LevelInfo, "errand: outcome recorded after retries", job, refusal)
			return
		}
		if len(locked) > 0 {
			batch = locked
		}
		s.held.noteRefusal(batch, err)
	}
}

func (s *settling) logRefused(job *queue.Job, err error) {
	s.failures.write(slog.LevelError, msgRefused, job, err)
}

// settleAside settles a batch that has been set aside. One such call at a time waits for locks.
func (s *settling) settleAside(ctx context.Context, batch []*heldJob) (lost []*queue.Job, err error) {
	s.aside <- struct{}{}
	defer func() { <-s.aside }()
	return s.settleBatch(ctx, outcomesOf(batch, nil))
}

// awaitFinished waits until there may be outcomes. It reports false if there will be none.
func (s *settling) awaitFinished(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.held.finished:
		return true
	case <-s.last:
		return s.held.hasFinished()
	}
}

// settleBatch calls Settle for the outcomes of a batch.
func (s *settling) settleBatch(ctx context.Context, outcomes []queue.Outcome) (lost []*queue.Job, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return s.Backend.Settle(ctx, nil, outcomes...)
}

// outcomesOf returns the outcomes of the batch in that memory. It sorts them by the jobs' IDs, in
// which order backends lock rows: then they need not sort a copy.
func outcomesOf(batch []*heldJob, memory []queue.Outcome) []queue.Outcome {
	outcomes := memory[:0]
	for _, h := range batch {
		outcomes = append(outcomes, h.end.outcome)
	}
	slices.SortFunc(outcomes, func(a, b queue.Outcome) int { return cmp.Compare(a.Job.ID, b.Job.ID) })
	return outcomes
}

// shouldSetAside reports whether a batch is a single outcome that was refused before.
func shouldSetAside(batch []*heldJob) bool { return len(batch) == 1 && batch[0].retried }

// endHolds ends the worker's hold on jobs that are settled or lost, counts and logs how they ended,
// and notes when the retried and released jobs are due. A limited queue has room for another job
// now.
func (s *settling) endHolds(batch []*heldJob, lost []*queue.Job) {
	s.held.recorded(batch, lost)
	s.reporting.countBatch(batch)
	var events []queue.Event
	now := time.Now()
	for _, h := range batch {
		e := h.end.event
		if s.Observe != nil {
			events = append(events, e)
		}
		switch e.Type {
		case queue.EventLost:
			// After a failed Settle the job is as likely to be lost because that Settle had
			// recorded it.
			s.Logger.Warn("errand: outcome not recorded, the worker no longer holds the job",
				append(jobAttrs(h.job), "retried", h.retried)...)
		case queue.EventRetried, queue.EventReleased:
			s.wakeups.noteDue(now.Add(e.Delay))
		}
		if h.job.Limited || h.job.Ordered {
			s.wakeups.noteDue(now)
		}
	}
	if isDrained := s.held.end(batch); isDrained {
		signal(s.held.drained)
	}
	signal(s.held.room)
	s.observe(events...)
}
