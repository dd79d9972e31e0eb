package queue

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"time"
)

// flight is a job that the worker holds, from its claim until it is settled.
type flight struct {
	job    *Job
	lease  time.Time // when it runs out, by this machine's clock
	ctx    context.Context
	cancel context.CancelCauseFunc // nil until the handler is started

	// Guarded by run.mu.
	slot     slot      // runs the handler; nil before and after
	given    bool      // its outcome is with settling; what its handler says now comes too late
	settling bool      // a Settle that names it is under way
	retried  bool      // a Settle that named it has failed, and may have done its work all the same
	lost     bool      // another has it: what comes of it is not settled
	ended    time.Time // when the handler was first seen to run although its context had ended
	reported bool      // that has been logged
}

// slot is a goroutine that runs handlers, one after the other: how its entry in a
// dump of all stacks begins, such as "goroutine 7 [".
type slot []byte

// hold takes note of claimed jobs, so that their leases are extended from now on.
func (r *run) hold(jobs []*Job, lease time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range jobs {
		r.held[job] = &flight{job: job, lease: lease}
	}
	r.waiting += len(jobs)
}

// start passes held jobs on to the slots, of which it makes more while
// Concurrency allows and there are more jobs than idle ones.
func (r *run) start(jobs []*Job) {
	r.mu.Lock()
	flights := make([]*flight, len(jobs))
	for i, job := range jobs {
		flights[i] = r.held[job]
	}
	more := min(r.waiting+r.running, r.Concurrency) - r.slots
	r.slots += max(more, 0)
	r.mu.Unlock()
	for range more {
		r.serving.Go(r.serve)
	}
	for _, f := range flights {
		r.work <- f // never blocks: the channel holds as many as may wait
	}
}

// serve is the life of a slot. A handler that calls runtime.Goexit ends it; another
// takes its place.
func (r *run) serve() {
	ended := false
	defer func() {
		if !ended {
			r.serving.Go(r.serve)
		}
	}()
	s := currentSlot()
	for f := range r.work {
		if r.begin(f, s) {
			r.fly(f)
		}
		signal(r.room)
	}
	ended = true
}

// fly runs the handler, whose panic is an error, and passes on what it says.
func (r *run) fly(f *flight) {
	started := time.Now()
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		r.finish(f, err, time.Since(started))
	}()
	err = r.Handler.HandleJob(f.ctx, f.job)
}

var errGoexit = errors.New("queue: handler called runtime.Goexit")

// begin gives a flight its context. It is false for a job that was lost or given
// back while it waited.
func (r *run) begin(f *flight, s slot) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.lost || f.given {
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
	outcome, ok := OutcomeOf(f.ctx, f.job, err)
	f.cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.pace.add(took)
	f.slot = nil
	switch {
	case f.given:
	case f.lost || !ok:
		delete(r.held, f.job)
	default:
		r.logOutcome(outcome)
		r.give(f, outcome)
	}
	r.noteIdle()
}

// give hands an outcome to settling. Called with r.mu held.
func (r *run) give(f *flight, o Outcome) {
	f.given = true
	r.finished = append(r.finished, o)
	signal(r.settle)
}

// releaseWaiting gives back the jobs that have not been started.
func (r *run) releaseWaiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for job, f := range r.held {
		if f.slot == nil && !f.given && !f.lost {
			r.waiting--
			r.give(f, Outcome{Job: job, Verb: Release})
		}
	}
}

// whenIdle returns a channel that is closed as soon as no handler runs.
func (r *run) whenIdle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = make(chan struct{})
	idle := r.idle
	r.noteIdle()
	return idle
}

// noteIdle is called with r.mu held.
func (r *run) noteIdle() {
	if r.idle != nil && r.running == 0 {
		close(r.idle)
		r.idle = nil
	}
}

// releaseStuck reports the handlers that still run and gives their jobs back.
func (r *run) releaseStuck() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for job, f := range r.held {
		if f.slot == nil {
			continue
		}
		n++
		r.reportStuck(f)
		if !f.lost && !f.given {
			r.give(f, Outcome{Job: job, Verb: Release})
		}
	}
	return n
}

// reportStuck logs, once, a handler that ignores the end of its context. Called
// with r.mu held.
func (r *run) reportStuck(f *flight) {
	if f.reported {
		return
	}
	f.reported = true
	r.Logger.Error("errand: handler ignores that its context has ended",
		append(jobAttrs(f.job), "cause", context.Cause(f.ctx), "stack", f.slot.stack())...)
}

// logOutcome logs what is not a success, one record each.
func (r *run) logOutcome(o Outcome) {
	if o.Err == nil {
		return
	}
	attrs := append(jobAttrs(o.Job), "error", ErrorText(o.Err))
	switch o.Verb {
	case Dead:
		r.Logger.Error("errand: job is dead", attrs...)
	case Retry:
		r.Logger.Warn("errand: job failed", append(attrs, "retry_in", o.Delay)...)
	case Release:
		r.Logger.Debug("errand: job given back", append(attrs, "due_in", o.Delay)...)
	}
}

// jobAttrs says which job a record is about. Its payload is nobody's business.
func jobAttrs(job *Job) []any {
	return []any{"job", job.ID, "kind", job.Kind, "queue", job.Queue, "attempt", job.Attempt}
}

// currentSlot is the goroutine that calls it.
func currentSlot() slot {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	head, _, _ := bytes.Cut(buf, []byte("["))
	return append(head, '[')
}

// stack returns what the goroutine is doing.
func (s slot) stack() string {
	const most = 64 << 20
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < most {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	for entry := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		if bytes.HasPrefix(entry, s) {
			return string(entry)
		}
	}
	return string(s) + "gone]"
}
