package queue

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// flight is a job that the worker holds, from its claim until it is settled.
type flight struct {
	job    *Job
	came   time.Time // when the claim was back: since then it waits for a slot
	lease  time.Time // when it runs out, by this machine's clock
	ctx    context.Context
	cancel context.CancelCauseFunc // nil until the handler is started

	// Guarded by run.mu.
	slot     slot      // runs the handler; nil before and after
	given    bool      // its outcome is with settling; what its handler says now comes too late
	outcome  Outcome   // once given
	settling bool      // a Settle that names it is under way
	retried  bool      // a Settle that named it has failed, and may have done its work all the same
	lost     bool      // another has it: what comes of it is not settled
	ended    time.Time // when the handler was first seen to run although its context had ended
	reported bool      // that has been logged
}

// start takes note of claimed jobs, so that their leases are extended from now on,
// and passes them on to the slots, of which it starts those that are missing.
func (r *run) start(ctx context.Context, jobs []*Job, claimed time.Time) {
	jobs, leased := r.extendLate(ctx, jobs, claimed)
	flights, more := r.hold(jobs, leased)
	for range more {
		r.flying.Go(r.serve)
	}
	for i := range flights {
		r.work <- &flights[i] // never blocks: the channel holds as many as may wait
	}
}

// hold makes claimed jobs flights, and says how many more slots there are to be for
// them: while Concurrency allows, and there are more jobs than idle ones. Where the
// worker is about to stop it gives them back instead, and returns none.
func (r *run) hold(jobs []*Job, leased time.Time) (flights []flight, more int) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	flights = make([]flight, len(jobs))
	for i, job := range jobs {
		flights[i] = flight{job: job, came: now, lease: leased.Add(r.Lease)}
		r.held[job] = &flights[i]
	}
	for _, job := range jobs {
		r.sizes.add(job)
	}
	r.waiting += len(jobs)
	if r.serving.Err() != nil { // the claim was under way when the worker was stopped
		for i := range flights {
			r.giveBack(&flights[i])
		}
		return nil, 0
	}
	more = max(min(r.waiting+r.running, r.Concurrency)-r.slots, 0)
	r.slots += more
	return flights, more
}

// serve is the life of a slot. A handler that calls runtime.Goexit ends it; another
// takes its place.
func (r *run) serve() {
	ended := false
	defer func() {
		if !ended {
			r.flying.Go(r.serve)
		}
	}()
	s := currentSlot()
	for f := range r.work {
		now := time.Now()
		if r.begin(f, s, now) {
			r.fly(f, now)
		} else {
			signal(r.room) // it has left its place in work
		}
	}
	ended = true
}

// fly runs the handler, whose panic is an error, and passes on what it says.
func (r *run) fly(f *flight, started time.Time) {
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		r.finish(f, err, time.Since(started))
	}()
	if f.job.Unreadable != nil {
		err = Discard(f.job.Unreadable)
		return
	}
	err = r.Handler.HandleJob(f.ctx, f.job)
}

var errGoexit = errors.New("queue: handler called runtime.Goexit")

// begin gives a flight its context. It is false for a job that was lost or given
// back while it waited, or is about to be because the worker stops; and for one that
// would be cancelled at once: its claim was long on its way, or the process was frozen.
func (r *run) begin(f *flight, s slot, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.lost || f.given || r.serving.Err() != nil {
		return false
	}
	if r.runsOut(f.lease, now) {
		r.giveBackStale(f)
		return false
	}
	r.waiting--
	r.running++
	f.slot = s
	f.ctx, f.cancel = context.WithCancelCause(r.handlers)
	timeout := r.Timeout
	if own, ok := r.timeouts[f.job.Kind]; ok {
		timeout = own
	}
	if timeout > 0 {
		var stop context.CancelFunc
		f.ctx, stop = context.WithTimeout(f.ctx, timeout)
		cancel := f.cancel
		f.cancel = func(cause error) { cancel(cause); stop() }
	}
	return true
}

// finish turns what the handler said into an outcome, unless the job is no longer
// this worker's.
func (r *run) finish(f *flight, err error, took time.Duration) {
	job := f.job
	outcome, ok := OutcomeOf(f.ctx, job, err)
	f.cancel(nil)
	end, room := r.land(f, outcome, ok, took)
	switch end {
	case landRecorded:
		r.logOutcome(outcome)
	case landLost:
		logLost(r.Logger, job)
	}
	if room {
		signal(r.room)
	}
}

// landing is what becomes of a handler's outcome.
type landing uint8

const (
	landRecorded landing = iota // it is with settling
	landSettled                 // by its handler
	landLost                    // another worker has the job
	landLate                    // the worker has given the job back meanwhile
)

// land notes that a handler has returned. It says what becomes of its outcome, and
// whether there is room to claim now. Settling may be done with f before it returns.
func (r *run) land(f *flight, o Outcome, ok bool, took time.Duration) (end landing, room bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.pace.add(took)
	f.slot = nil
	switch {
	case f.given:
		end = landLate
	case !ok:
		end = landSettled // also where the worker has lost it: then no other worker has it
		r.drop(f)
	case f.lost:
		end = landLost
		r.drop(f)
	default:
		r.give(f, o)
	}
	r.noteIdle()
	return end, r.freeRoom() > 0
}

// drop forgets a flight that has ended. It clears it, because the claim's other
// flights are in the same block of memory: they would keep the payload there.
// Called with r.mu held.
func (r *run) drop(f *flight) {
	delete(r.held, f.job)
	if f.slot == nil { // otherwise the handler ignores that its context has ended
		*f = flight{lost: true} // if it is still on its way to a slot, no slot starts it
	}
}

// give hands an outcome to settling. Called with r.mu held.
func (r *run) give(f *flight, o Outcome) {
	f.given, f.outcome = true, o
	r.unsettled++
	r.finished = append(r.finished, f)
	signal(r.settle)
}

// giveBack releases a job that has not been started. It keeps its place in the
// queue. Called with r.mu held.
func (r *run) giveBack(f *flight) {
	r.waiting--
	r.give(f, Outcome{Job: f.job, Action: Release})
}

// giveBackStale releases a job whose lease runs out before it has been started.
// Called with r.mu held.
func (r *run) giveBackStale(f *flight) {
	r.Logger.Warn("errand: lease runs out before the job was started, given back", jobAttrs(f.job)...)
	r.giveBack(f)
}

// logOutcome logs what is not a success, one record each.
func (r *run) logOutcome(o Outcome) {
	if o.Err == nil {
		return
	}
	attrs := append(jobAttrs(o.Job), "error", ErrorText(o.Err))
	switch o.Action {
	case Dead:
		r.Logger.Error("errand: job is dead", attrs...)
	case Retry:
		r.Logger.Warn("errand: job failed", append(attrs, "retry_in", o.Delay)...)
	case Release:
		attrs = append(attrs, "due_in", o.Delay)
		if r.isFirstUnknown(o.Err) {
			r.Logger.Warn("errand: the Mux has no handler for this kind, job given back; the worker claims every kind, "+
				"since it cannot find the Mux: wrap it with queue.Chain, or give its wrapper an Unwrap method", attrs...)
			return
		}
		r.Logger.Debug("errand: job given back", attrs...)
	}
}

// isFirstUnknown reports whether err is the first with which a Mux has given back a
// job of its kind.
func (r *run) isFirstUnknown(err error) bool {
	kind, ok := errors.AsType[unknownKind](err)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unknown[kind] {
		return false
	}
	r.unknown[kind] = true
	return true
}

func logLost(log *slog.Logger, job *Job) {
	log.Warn("errand: lease lost", jobAttrs(job)...)
}

// jobAttrs says which job a record is about. Its payload is nobody's business.
func jobAttrs(job *Job) []any {
	return []any{"job", job.ID, "kind", job.Kind, "queue", job.Queue, "attempt", job.Attempt}
}
