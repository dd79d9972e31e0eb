package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// holding is the jobs that the worker holds, under one lock. Claims add jobs, slots start and
// finish them, leases extend and lose them, and settling ends them. Its methods call neither the
// backend nor the handler nor the log: they return what there is to log.
type holding struct {
	*shared
	room     chan struct{} // signals the claim loop: a slot is free, or outcomes were settled
	drained  chan struct{} // signals the claim loop: limited or ordered jobs were settled, and no job is left
	finished chan struct{} // signals the settle loop: there are outcomes
	work     chan *heldJob // claimed jobs on their way to a slot

	mu    sync.Mutex
	jobs  heldJobs // claimed and not yet settled
	ahead ahead    // how many jobs to claim
	slots int      // goroutines that run handlers, busy or not
	stop  stopping
}

func newHolding(s *shared) *holding {
	return &holding{
		shared:   s,
		room:     make(chan struct{}, 1),
		drained:  make(chan struct{}, 1),
		finished: make(chan struct{}, 1),
		work:     make(chan *heldJob, maxPrefetch+s.Concurrency),
		ahead:    ahead{most: s.Concurrency},
		jobs:     heldJobs{slots: newSlotsByQueue(s.Slots)},
	}
}

// roomNow returns how many jobs to claim now, and how many slots are free.
func (held *holding) roomNow() (n, free int) {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.freeRoom(), max(held.Concurrency-held.jobs.unfinished(), 0)
}

// freeRoom returns how many jobs to claim now: as many as there are free slots and, while there is
// a backlog, as many more as slots will start within Prefetch. Without a backlog, other workers
// have free slots for those. To keep claims few and large, it returns 0 until slots have started
// half of the jobs that were claimed ahead. The caller holds held.mu.
func (held *holding) freeRoom() int {
	if held.jobs.unsettled() >= maxUnsettled || held.jobs.slots.areFull(held.Queues) {
		return 0
	}
	fitting := held.ahead.sizes.fitting(claimBytes)
	further := min(held.ahead.jobs(held.Prefetch, held.Concurrency), fitting)
	beyond := held.jobs.unfinished() - held.Concurrency // jobs without a free slot; below 0, free slots
	if beyond > further/2 {
		return 0
	}
	free := cap(held.work) - len(held.work) // sending to held.work must not block
	return min(further-beyond, maxClaim, fitting, free)
}

// roundOf returns the claims of a round for at most n jobs: one of all queues together, or apart
// those whose slots bound how many they may have.
func (held *holding) roundOf(queues []string, n int, isApart bool) []ask {
	held.mu.Lock()
	defer held.mu.Unlock()
	if isApart {
		return held.jobs.slots.apart(queues, n)
	}
	return []ask{held.jobs.slots.together(queues, n)}
}

// roomOf returns how many more jobs of a queue that has a number there is a slot for.
func (held *holding) roomOf(own *queueSlots) int {
	held.mu.Lock()
	defer held.mu.Unlock()
	return own.room()
}

// noteBacklog notes whether the last claim came back full, and the jobs that it brought.
func (held *holding) noteBacklog(isFull bool, jobs []*queue.Job) {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.ahead.addClaim(isFull, jobs, held.Concurrency)
}

// add holds claimed jobs, and returns how many more slots they need: one for each job for which no
// slot is idle, up to Concurrency. If the worker is about to stop, add releases the jobs and
// returns none.
func (held *holding) add(jobs []*queue.Job, leased time.Time) (added []heldJob, newSlots int) {
	now := time.Now()
	held.mu.Lock()
	defer held.mu.Unlock()
	free := held.Concurrency - held.jobs.unfinished()
	added = held.jobs.add(jobs, now, leased.Add(held.Lease))
	for _, job := range jobs {
		held.ahead.sizes.add(job)
	}
	if held.serving.Err() != nil { // the claim was under way when the worker was stopped
		for i := range added {
			held.release(&added[i])
		}
		return nil, 0
	}
	for i := range added {
		if held.paused.Has(added[i].job.Kind) { // since the claim began
			held.release(&added[i])
		}
	}
	held.releaseLastAttempts(added, free)
	newSlots = max(min(held.jobs.unfinished(), held.Concurrency)-held.slots, 0)
	held.slots += newSlots
	return added, newSlots
}

// releaseLastAttempts releases those of the claimed jobs that are in their last attempt and would
// wait for a slot: after a crash they would be dead and have never run. free is how many of the
// jobs have a slot. The caller holds held.mu.
func (held *holding) releaseLastAttempts(claimed []heldJob, free int) {
	free = min(max(free, 0), len(claimed))
	started, released := 0, 0
	for i := range claimed {
		switch h := &claimed[i]; {
		case !isLastAttempt(h.job):
		case i < free:
			started++
		default:
			held.release(h)
			released++
		}
	}
	held.ahead.addLastTries(started, released, len(claimed)-free)
}

// start gives a waiting job its context and reports whether its handler should run. It should not
// if the job was lost or released while it waited, if the worker stops, or if the lease is about to
// expire: then the job is released, and start returns it as stale. A lease is about to expire if
// the claim took long or the process was frozen.
func (held *holding) start(h *heldJob, s slot, p *progressing, now time.Time) (isStarted bool, stale []*queue.Job) {
	held.mu.Lock()
	defer held.mu.Unlock()
	if h.state != stateWaiting || held.serving.Err() != nil {
		return false, nil
	}
	if held.endsSoon(h.expires, now) {
		stale = append(stale, h.job)
		held.release(h)
		return false, stale
	}
	h.waited = now.Sub(dueAt(h.job))
	ctx, cancel := held.handlerContext(h.job.Kind)
	own := held.jobs.newContext(ctx, p)
	own.job.Store(h.job)
	held.jobs.start(h, s, own, cancel)
	return true, nil
}

// announce gives a job whose handler has returned the context for OnDead. finish ends it. isHeld is
// false if the worker has lost the job.
func (held *holding) announce(h *heldJob, p *progressing) (ctx context.Context, isHeld bool) {
	held.mu.Lock()
	defer held.mu.Unlock()
	defer h.cancel(nil)
	ending, cancel := cancelAfter(held.onDead, held.timeForOnDead())
	own := held.jobs.newContext(ending, p)
	ran := h.ctx
	if !held.jobs.announce(h, own, cancel) {
		cancel(nil)
		return nil, false
	}
	ran.forget()
	return own, true
}

// timeForOnDead returns how long OnDead may run after a run that has ended now. It ends no later
// than held.onDead, and lets the context tell its deadline. The caller holds held.mu.
func (held *holding) timeForOnDead() time.Duration {
	if held.stop.graceEnded.IsZero() {
		return onDeadTimeout
	}
	return max(stopOnDeadTimeout-time.Since(held.stop.graceEnded), 1) // onDead has ended if none is left
}

// finish ends the run of a handler. It returns the job's state before, whether there is room to
// claim now, and whether all slots of the job's queue were taken before.
func (held *holding) finish(h *heldJob, end runEnd) (before heldState, hasRoom, wasFull bool) {
	held.mu.Lock()
	defer held.mu.Unlock()
	wasFull = h.place != nil && h.place.room() <= 0
	held.ahead.pace.add(end.event.Took)
	h.ctx.forget()
	before = held.jobs.finish(h, end)
	if before == stateRunning && !end.isSettled {
		if end.event.Type == queue.EventReleased && end.event.Delay == 0 && held.serving.Err() != nil {
			held.stop.interrupted++ // a snooze has a delay
		}
		signal(held.finished)
	}
	held.noteIdle()
	return before, held.freeRoom() > 0, wasFull
}

// release releases a job that has not been started. It keeps its place in its queue. The caller
// holds held.mu.
func (held *holding) release(h *heldJob) {
	if h.state == stateWaiting && held.serving.Err() != nil {
		held.stop.unstarted++
	}
	held.jobs.release(h)
	signal(held.finished)
}

// releasePaused releases the jobs of paused kinds that have not been started.
func (held *holding) releasePaused() {
	held.mu.Lock()
	defer held.mu.Unlock()
	for h := range held.jobs.all() {
		if h.state == stateWaiting && held.paused.Has(h.job.Kind) {
			held.release(h)
		}
	}
}

// take takes finished jobs, the oldest first: at most n, or at most retries whose outcomes have
// failed.
func (held *holding) take(n, retries int) []*heldJob {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.jobs.take(n, retries)
}

// hasFinished reports whether there are outcomes to settle.
func (held *holding) hasFinished() bool {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.jobs.count[stateFinished] > 0
}

// recorded corrects the events of a batch by what the backend has recorded: nothing of the lost
// jobs, and a cancellation of each job that would run again although Extend has asked to cancel it.
// From then on until end, only the caller uses the events of the batch.
func (held *holding) recorded(batch []*heldJob, lost []*queue.Job) {
	held.mu.Lock()
	defer held.mu.Unlock()
	for _, h := range batch {
		e := &h.end.event
		switch {
		case len(lost) > 0 && slices.Contains(lost, h.job):
			*e = lostEvent(h.job, e.Took)
		case h.isAsked && (e.Type == queue.EventRetried || e.Type == queue.EventReleased):
			e.Type, e.Delay = queue.EventCancelled, 0
		}
	}
}

// end ends the worker's hold on jobs that are settled or lost. It reports whether some were limited
// or ordered and no job is left to run: others can be claimed now.
func (held *holding) end(batch []*heldJob) (isDrained bool) {
	held.mu.Lock()
	defer held.mu.Unlock()
	for _, h := range batch {
		isDrained = isDrained || h.job.Limited || h.job.Ordered
		held.jobs.settled(h)
	}
	return isDrained && held.jobs.unfinished() == 0
}

// load returns how many handlers run, and how many jobs wait for a slot.
func (held *holding) load() (busy, waiting int) {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.jobs.busy, held.jobs.count[stateWaiting]
}

// slotsNow returns the queues that have a number of slots, and how many handlers run their jobs.
func (held *holding) slotsNow() (list []driver.QueueSlots) {
	held.mu.Lock()
	defer held.mu.Unlock()
	for _, name := range held.Queues {
		if s := held.jobs.slots[name]; s != nil {
			list = append(list, driver.QueueSlots{Queue: name, Slots: s.most, Busy: s.busy})
		}
	}
	return list
}

// unsettled returns how many jobs have an outcome that is not recorded yet.
func (held *holding) unsettled() int {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.jobs.unsettled()
}
