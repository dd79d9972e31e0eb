package engine

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// heldState is where a job stands between its claim and the end of its worker's hold on it.
//
//	from               method    to
//	(none)             add       waiting
//	waiting            start     running
//	waiting            release   finished, with the outcome Release
//	waiting            lose      ended
//	running            finish    finished; ended if its handler has settled it
//	running            lose      lost
//	running            abandon   finished, with the outcome Release, while its handler still runs
//	lost               finish    ended
//	finished           take      settling
//	settling           putBack   finished
//	settling           setAside  refused
//	settling, refused  settled   ended
//
// There are no other moves: a method changes nothing for a job in another state.
type heldState uint8

const (
	stateEnded    heldState = iota // the worker does not hold the job any more
	stateWaiting                   // claimed, not yet started
	stateRunning                   // its handler runs
	stateLost                      // its handler runs, but the worker is no longer the job's holder
	stateFinished                  // its outcome waits to be settled
	stateSettling                  // a Settle with its outcome is under way
	stateRefused                   // the backend refused its outcome, or the job is locked; settleAlone retries it

	heldStates = iota
)

// heldJob is a job that the worker holds. Its state and what follows it change only by the methods
// of heldJobs.
type heldJob struct {
	previous, next *heldJob // among the jobs that the worker holds

	job     *queue.Job
	since   time.Time     // waiting: when its claim returned; later: when the guard first saw ctx ended
	expires time.Time     // when its lease expires, by this machine's clock
	end     runEnd        // set from finished on
	waited  time.Duration // from when it was due until its handler began
	refused refusal       // of its outcome

	place  *queueSlots     // of its queue; nil if that has no number
	slot   slot            // the goroutine that runs its handler; "" before and after
	ctx    *handlerContext // of its handler, or of OnDead
	cancel context.CancelCauseFunc

	state       heldState
	retried     bool // a Settle with its outcome has failed, and may have recorded it all the same
	isAsked     bool // Extend has asked to cancel the job
	isAnnounced bool // the context is that of OnDead, which nobody cancels
	isReported  bool // the log says that the handler ignores the end of its context
}

// leaveQueue notes that the job neither waits for a slot nor is in one any more.
func (h *heldJob) leaveQueue() {
	if h.place != nil {
		h.place.used--
		h.place = nil
	}
}

// refusal is why and since when the backend refuses an outcome. It is zero if the backend does not.
type refusal struct {
	err error
	at  time.Time
}

// isBusy reports whether the job's handler runs. A handler that ignores the end of its context may
// run in any state but waiting.
func (h *heldJob) isBusy() bool { return h.slot != "" }

// heldJobs are the jobs that one worker holds. They count the jobs in each state, and the handlers
// that run. They have no lock of their own: holding has it.
type heldJobs struct {
	first    *heldJob         // a list: a map would cost each job a sixth of the engine's time
	count    [heldStates]int  // jobs in each state; of ended, all so far
	busy     int              // handlers that run
	finished []*heldJob       // jobs in the state finished, in the order in which to settle them
	failed   []*heldJob       // the others in that state, whose outcomes have failed
	isFresh  bool             // the last batch had outcomes that have not failed
	contexts []handlerContext // for the handlers that follow
	slots    slotsByQueue     // of the queues that have a number
}

// contextBlock is how many contexts are allocated at once. A handler that runs for long keeps the
// contexts of its block in memory.
const contextBlock = 10

// finishedBlock is how many places for finished jobs are allocated at once.
const finishedBlock = 256

// newContext returns a context for a handler, or for OnDead, that has no job yet.
func (hs *heldJobs) newContext(parent context.Context, p *progressing) *handlerContext {
	if len(hs.contexts) == 0 {
		hs.contexts = make([]handlerContext, contextBlock)
	}
	c := &hs.contexts[0]
	hs.contexts = hs.contexts[1:]
	c.Context.Context, c.Run, c.run = parent, c, p
	return c
}

// all returns the held jobs. The caller may end its hold on a job that it is given.
func (hs *heldJobs) all() iter.Seq[*heldJob] {
	return func(yield func(*heldJob) bool) {
		for h := hs.first; h != nil; {
			next := h.next
			if !yield(h) {
				return
			}
			h = next
		}
	}
}

func (hs *heldJobs) link(h *heldJob) {
	h.next = hs.first
	if h.next != nil {
		h.next.previous = h
	}
	hs.first = h
}

func (hs *heldJobs) unlink(h *heldJob) {
	if h.previous == nil {
		hs.first = h.next
	} else {
		h.previous.next = h.next
	}
	if h.next != nil {
		h.next.previous = h.previous
	}
	h.previous, h.next = nil, nil
}

// unfinished returns how many jobs wait for a slot or are in one.
func (hs *heldJobs) unfinished() int { return hs.count[stateWaiting] + hs.busy }

// unsettled returns how many jobs have an outcome that is not recorded yet.
func (hs *heldJobs) unsettled() int {
	return hs.count[stateFinished] + hs.count[stateSettling] + hs.count[stateRefused]
}

// move changes the state of a job and keeps the counters.
func (hs *heldJobs) move(h *heldJob, to heldState) {
	hs.count[h.state]--
	hs.count[to]++
	h.state = to
}

// add holds jobs whose claim has just returned. They are waiting.
func (hs *heldJobs) add(jobs []*queue.Job, since, expires time.Time) []heldJob {
	added := make([]heldJob, len(jobs))
	for i, job := range jobs {
		added[i] = heldJob{job: job, since: since, expires: expires, state: stateWaiting}
		hs.link(&added[i])
		if place := hs.slots[job.Queue]; place != nil {
			added[i].place = place
			place.used++
		}
	}
	hs.count[stateWaiting] += len(jobs)
	return added
}

// start notes that a waiting job's handler begins to run in that slot, with that context.
func (hs *heldJobs) start(h *heldJob, s slot, ctx *handlerContext, cancel context.CancelCauseFunc) {
	if h.state != stateWaiting {
		return
	}
	hs.busy++
	if h.place != nil {
		h.place.busy++
	}
	h.slot, h.ctx, h.cancel, h.since = s, ctx, cancel, time.Time{}
	hs.move(h, stateRunning)
}

// announce replaces the context of a running job's handler, which has returned, with that of the
// job's OnDead. It reports false if the worker has lost the job.
func (hs *heldJobs) announce(h *heldJob, ctx *handlerContext, cancel context.CancelCauseFunc) bool {
	if h.state != stateRunning {
		return false
	}
	h.ctx, h.cancel, h.since, h.isAnnounced = ctx, cancel, time.Time{}, true
	return true
}

// release releases a waiting job, which keeps its place in its queue.
func (hs *heldJobs) release(h *heldJob) {
	if h.state == stateWaiting {
		h.leaveQueue()
		hs.finishWith(h, releaseOf(h.job, 0))
	}
}

// abandon releases a running job although its handler still runs.
func (hs *heldJobs) abandon(h *heldJob) {
	if h.state == stateRunning {
		hs.finishWith(h, releaseOf(h.job, 0))
	}
}

// lose notes that the worker is no longer the job's holder. It returns the state of the job before:
// only a waiting or a running job can be lost here, since Settle reports the others.
func (hs *heldJobs) lose(h *heldJob) (before heldState) {
	before = h.state
	switch before {
	case stateWaiting:
		h.leaveQueue()
		hs.end(h)
	case stateRunning:
		hs.move(h, stateLost)
	}
	return before
}

// finish notes that a job's handler has returned. It returns the state of the job before: the end
// of the run counts only if the job was running.
func (hs *heldJobs) finish(h *heldJob, end runEnd) (before heldState) {
	before = h.state
	if !h.isBusy() {
		return before
	}
	hs.busy--
	h.slot = ""
	if h.place != nil {
		h.place.busy--
		h.leaveQueue()
	}
	switch {
	case before == stateRunning && !end.isSettled:
		hs.finishWith(h, end)
	case before == stateRunning, before == stateLost:
		hs.end(h)
	}
	return before
}

func (hs *heldJobs) finishWith(h *heldJob, end runEnd) {
	h.end = end
	hs.move(h, stateFinished)
	if len(hs.finished) == cap(hs.finished) {
		hs.finished = slices.Grow(hs.finished, finishedBlock)
	}
	hs.finished = append(hs.finished, h)
}

// take moves the first finished jobs to settling: at most n, or at most retries if their outcomes
// have failed before. The two are never in one batch. They take turns, so that neither waits for
// all of the others.
func (hs *heldJobs) take(n, retries int) []*heldJob {
	list := &hs.finished
	if hs.isFresh = len(hs.failed) == 0 || !hs.isFresh && len(hs.finished) > 0; !hs.isFresh {
		list, n = &hs.failed, retries
	}
	n = min(n, len(*list))
	batch := (*list)[:n:n]
	*list = (*list)[n:]
	for _, h := range batch {
		hs.move(h, stateSettling)
	}
	return batch
}

// putBack notes that the outcomes of settling jobs could not be recorded. They are settled again
// after the others that have failed.
func (hs *heldJobs) putBack(batch []*heldJob) {
	for _, h := range batch {
		if h.state == stateSettling {
			h.retried = true
			hs.move(h, stateFinished)
			hs.failed = append(hs.failed, h)
		}
	}
}

// setAside notes that the backend has refused a settling job's outcome alone, or that the job is
// locked.
func (hs *heldJobs) setAside(h *heldJob) {
	if h.state == stateSettling {
		hs.move(h, stateRefused)
	}
}

// refuse notes why the backend refuses a job's outcome.
func (h *heldJob) refuse(err error, now time.Time) {
	if h.state == stateEnded {
		return
	}
	if h.refused.at.IsZero() {
		h.refused.at = now
	}
	h.refused.err = err
}

// settled notes that a job's outcome is recorded, or that Settle has reported the job lost.
func (hs *heldJobs) settled(h *heldJob) {
	if h.state == stateSettling || h.state == stateRefused {
		hs.end(h)
	}
}

// end ends the worker's hold on a job. It clears h unless its handler still runs: the jobs of one
// claim share a block of memory, and would keep the payload there.
func (hs *heldJobs) end(h *heldJob) {
	hs.unlink(h)
	hs.move(h, stateEnded)
	if !h.isBusy() {
		*h = heldJob{}
	}
}
