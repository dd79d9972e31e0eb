package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// onDeadTimeout is how long OnDead may run before its context ends. stopOnDeadTimeout is how
	// long after Grace all contexts of OnDead end. Then stopTimeout leaves time to settle.
	// stopTellingTimeout is how long after Grace the calls end that tell of dead jobs, so that there
	// is time for OnDead.
	onDeadTimeout      = 10 * time.Second
	stopOnDeadTimeout  = awaitCancelled - time.Second
	stopTellingTimeout = stopOnDeadTimeout / 2
	// maxOnDead is how many calls of OnDead for reclaimed jobs run at once, and maxDeaths how many
	// jobs wait for one.
	maxOnDead = 10
	maxDeaths = 10_000
)

// isLastAttempt reports whether a job is in its last attempt: a crash makes it dead.
func isLastAttempt(job *queue.Job) bool { return job.Attempt >= job.MaxAttempts }

// announceRun calls OnDead for a job whose handler has returned with that outcome, unless the
// worker has lost the job. It returns the outcome to settle. The call is treated like the handler:
// it takes the job's slot, the job's lease is extended meanwhile, and the guard reports it if it
// ignores the end of its context. The job is not settled yet. So if the process crashes meanwhile,
// the job is reclaimed, and OnDead is called again. If the worker stops and no time is left for
// OnDead, the job is released and not dead.
func (r *run) announceRun(h *heldJob, dead queue.Outcome) queue.Outcome {
	ctx, isHeld := r.startAnnouncing(h)
	switch {
	case !isHeld:
	case ctx.Err() != nil:
		return queue.Outcome{Job: h.job, Action: queue.Release}
	default:
		r.callOnDead(ctx, h.job, dead.Err)
	}
	return dead
}

// startAnnouncing gives a job whose handler has returned the context for OnDead. finish ends it.
func (r *run) startAnnouncing(h *heldJob) (ctx context.Context, isHeld bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer h.cancel(nil)
	ending, cancel := cancelAfter(r.onDead, r.timeForOnDead())
	own := r.held.newContext(ending, r)
	ran := h.ctx
	if !r.held.announce(h, own, cancel) {
		cancel(nil)
		return nil, false
	}
	ran.forget()
	return own, true
}

// timeForOnDead returns how long OnDead may run after a run that has ended now. It ends no later
// than r.onDead, and lets the context tell its deadline. The caller holds r.mu.
func (r *run) timeForOnDead() time.Duration {
	if r.graceEnded.IsZero() {
		return onDeadTimeout
	}
	return max(stopOnDeadTimeout-time.Since(r.graceEnded), 1) // r.onDead has ended if none is left
}

// announceReclaimed makes announceLoop call OnDead for each of the reclaimed jobs that is dead. It
// does not wait.
func (r *run) announceReclaimed(jobs []*queue.Job) {
	if r.OnDead == nil {
		return
	}
	missed := 0
	for _, job := range jobs {
		if !isLastAttempt(job) || job.LastError == driver.ReclaimedCancelled {
			continue
		}
		r.noteAnnouncing(+1)
		select {
		case r.deaths <- job:
		default:
			r.noteAnnouncing(-1)
			missed++
		}
	}
	r.logMissed(missed)
}

// noteAnnouncing changes the number of reclaimed jobs whose OnDead is to be called, or runs.
func (r *run) noteAnnouncing(change int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announcing += change
	r.noteIdle()
}

// announceLoop calls OnDead for reclaimed jobs, until r.deaths is closed and the calls have
// returned. No call begins once r.onDead has ended. Once patience has ended, announceLoop does not
// wait for calls that still run.
func (r *run) announceLoop(patience context.Context) {
	running := make(chan struct{}, maxOnDead)
	missed := 0
	for job := range r.deaths {
		if !acquire(r.onDead, running) {
			missed++
			r.noteAnnouncing(-1)
			continue
		}
		go func() {
			defer func() { r.noteAnnouncing(-1); <-running }()
			r.announceCrash(job)
		}()
	}
	r.logMissed(missed)
	for range maxOnDead { // until no call runs
		acquire(patience, running)
	}
}

// announceCrash calls OnDead for a reclaimed job. A call that ignores the end of its context is
// logged once: ten of them keep all further calls waiting.
func (r *run) announceCrash(job *queue.Job) {
	s := currentSlot()
	ctx, cancel := context.WithTimeout(r.onDead, onDeadTimeout)
	defer cancel()
	returned := make(chan struct{})
	defer close(returned)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-returned:
		case <-time.After(stuckAfter):
			r.Logger.Error("errand: OnDead ignores that its context has ended, one of ten calls is busy until it returns",
				append(jobAttrs(job), "stack", s.stackIn(dumpStacks()))...)
		}
	})()
	r.callOnDead(ctx, job, crashed(job.LastError))
}

// acquire waits for a place among the running calls. It reports false if ctx has ended.
func acquire(ctx context.Context, running chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case running <- struct{}{}:
		return true
	}
}

// callOnDead calls OnDead, and logs its panic.
func (r *run) callOnDead(ctx context.Context, job *queue.Job, err error) {
	defer func() {
		if v := recover(); v != nil {
			r.failures.write(slog.LevelError, "errand: OnDead panicked", job, queue.RecoveredPanic(v))
		}
	}()
	r.OnDead(ctx, job, err)
}

// logMissed logs for how many reclaimed jobs OnDead has not been called.
func (r *run) logMissed(jobs int) {
	if jobs > 0 {
		r.Logger.Error("errand: OnDead not called for reclaimed jobs that are dead, because calls take long or the worker stops",
			"omitted", jobs)
	}
}
