package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// MaxOutput is the longest output, and the longest progress, of a job, in bytes of JSON.
const MaxOutput = 1 << 20

// Progress is how far a job is, as its handler says.
type Progress struct {
	Job   *Job            // as claimed
	Value json.RawMessage // any JSON value
}

// Check returns an [*InvalidError] if Job is nil or Value is no JSON value of at most [MaxOutput]
// bytes that a database can store. Backends call it first in KeepProgress.
func (p Progress) Check() error {
	if p.Job == nil {
		return invalid("Progress.Job", "nil")
	}
	if p.Value == nil {
		return invalid("Progress.Value", "nil")
	}
	return checkOutput("Progress.Value", p.Value)
}

// Result says how far a job is that somebody waits for, and what it has returned. [Output] reads
// its Output.
type Result struct {
	ID        int64  `json:"id"`
	Status    Status `json:"status"`
	LastError string `json:"last_error,omitempty"`
	// Output is what SetOutput got in the run that has completed the job; nil if nothing.
	Output json.RawMessage `json:"output,omitempty"`
	// Progress is what SetProgress got last; nil if nothing. ProgressAt is when it was recorded, by
	// the backend's clock.
	Progress   json.RawMessage `json:"progress,omitempty"`
	ProgressAt time.Time       `json:"progress_at,omitzero"`
}

// HasEnded reports whether the job will not run again, unless a person redrives it.
func (r Result) HasEnded() bool {
	switch r.Status {
	case StatusPending, StatusRunning, StatusHeld:
		return false
	}
	return true
}

// SetOutput makes v, as encoding/json marshals it, the output of the job that is being handled. It
// is recorded by the statement that completes the job, and dropped if the run ends differently. The
// last call counts. ctx is the handler's. The error is an [*InvalidError] if v is no JSON value of
// at most MaxOutput bytes that a database can store, and if no job is being handled in ctx: in the
// function of [Kind.HandleMany], in OnDead, or where the backend is not a [ResultKeeper]. SetOutput
// does not wait, and may be called concurrently.
func SetOutput(ctx context.Context, v any) error {
	return set(ctx, "Output", v, func(r *runResult, text json.RawMessage) { r.output = text })
}

// SetProgress makes v, as encoding/json marshals it, the progress of the job that is being handled:
// a number, or a struct. The worker records it within about a second, and leaves out values that
// newer ones have replaced by then. What is set in the last second of a run may be missing. It is
// an error where SetOutput is one. It does not wait, and may be called concurrently.
func SetProgress(ctx context.Context, v any) error {
	return set(ctx, "Progress", v, func(r *runResult, text json.RawMessage) { r.progress, r.isNew = text, true })
}

// set checks v and lets store keep it with the job that ctx is for.
func set(ctx context.Context, field string, v any, store func(*runResult, json.RawMessage)) error {
	c, _ := ctx.Value(handlerKey{}).(*handlerContext)
	switch {
	case c == nil || c.isShared || c.run != nil && c.job.Load() == nil:
		return invalid(field, "no single job is being handled in this context")
	case c.run != nil && c.run.results == nil:
		return invalid(field, "the backend %T keeps no results", c.run.Backend)
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = checkOutput(field, text)
	}
	if err != nil {
		return fmt.Errorf("queue: set %s: %w", field, err)
	}
	c.result.CompareAndSwap(nil, new(runResult))
	r := c.result.Load()
	if r == nil {
		return nil // the handler has returned meanwhile
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	store(r, text)
	if c.run != nil && r.isNew {
		c.run.noteProgress(c)
	}
	return nil
}

// checkOutput returns an error for text that a backend cannot store as that field.
func checkOutput(field string, text json.RawMessage) error {
	err := checkPayload(text, MaxOutput)
	if i, ok := errors.AsType[*InvalidError](err); ok {
		return invalid(field, "%s", i.Problem)
	}
	return err
}

// OutputOf returns what SetOutput has got with a handler's context, or nil. [OutcomeOf] puts it
// into the outcome. It is for code that settles a job itself, such as middleware.
func OutputOf(ctx context.Context) json.RawMessage {
	r := resultIn(ctx)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.output
}

// ProgressOf returns what SetProgress has got with a handler's context, or nil. It is for tests.
func ProgressOf(ctx context.Context) json.RawMessage {
	r := resultIn(ctx)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// resultIn returns what the handler with that context has set, or nil.
func resultIn(ctx context.Context) *runResult {
	c, _ := ctx.Value(handlerKey{}).(*handlerContext)
	if c == nil {
		return nil
	}
	return c.result.Load()
}

// WithResults returns a context in which SetOutput and SetProgress work as in a worker's. It is for
// tests that call a handler, and for code that runs handlers without a [Worker].
func WithResults(ctx context.Context) context.Context { return &handlerContext{Context: ctx} }

// handlerContext is the context of a handler. It holds what the handler says of its job.
type handlerContext struct {
	context.Context
	run      *run                      // nil outside of a worker
	job      atomic.Pointer[Job]       // nil outside of a worker, and once the handler has returned
	isShared bool                      // it is the context of several jobs, for which nothing can be set
	result   atomic.Pointer[runResult] // nil until something is set
}

type handlerKey struct{}

// runResult is what a handler has said of its job.
type runResult struct {
	mu               sync.Mutex
	output, progress json.RawMessage
	isNew            bool // progress is not yet recorded
}

// forget drops the job and what its handler has set, once the handler has returned. The context
// itself may live on: in a goroutine of the handler, and with the others of its block.
func (c *handlerContext) forget() {
	c.job.Store(nil)
	c.result.Store(nil)
}

// Value implements [context.Context].
func (c *handlerContext) Value(key any) any {
	if key == (handlerKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Output returns the output of a completed job as a T. If the job is not completed, or has no
// output, or has an output that does not fit T, it returns an error.
func Output[T any](r Result) (v T, err error) {
	switch {
	case r.Status != StatusCompleted:
		return v, fmt.Errorf("queue: job %d is %s and has no output: %s", r.ID, r.Status, r.LastError)
	case r.Output == nil:
		return v, fmt.Errorf("queue: job %d has no output", r.ID)
	}
	if err := json.Unmarshal(r.Output, &v); err != nil {
		return v, fmt.Errorf("queue: output of job %d %s", r.ID, misfitText(err))
	}
	return v, nil
}

// ErrNoJob is the error of [Await] for a job that the backend does not have: it was never
// committed, or it has been pruned.
var ErrNoJob = errors.New("queue: no such job")

// ErrHeld is the error of [Await] for a job that is held: it waits for a person.
var ErrHeld = errors.New("queue: the job is held")

const (
	firstAwaitPause   = 10 * time.Millisecond
	longestAwaitPause = time.Second
)

// Await waits until the job has ended, and returns its result. The caller looks at its Status, or
// calls [Output]. Await asks the backend, at first after 10 ms, then less and less often, and each
// second in the end. A job that the backend deletes when it is completed (see [Retention]) is
// [ErrNoJob]. A job that is held (see [HoldDead]) runs again only if a person edits or redrives it:
// the error is then [ErrHeld], with its LastError in the Result. q is a [ResultKeeper], or wraps
// one; otherwise the error is an [*InvalidError]. Await returns ctx's error when ctx ends.
//
// A handler that awaits other jobs keeps its slot meanwhile. If all slots do so, nothing runs.
func Await(ctx context.Context, q Enqueuer, id int64) (Result, error) {
	keeper, ok := As[ResultKeeper](q)
	if !ok {
		return Result{}, invalid("Queue", "%T keeps no results", q)
	}
	for pause := firstAwaitPause; ; pause = min(pause*3/2, longestAwaitPause) {
		r, ok, err := keeper.Result(ctx, id)
		switch {
		case err != nil:
			return r, err
		case !ok:
			return r, fmt.Errorf("%w: %d", ErrNoJob, id)
		case r.HasEnded():
			return r, nil
		case r.Status == StatusHeld:
			return r, fmt.Errorf("%w: %d", ErrHeld, id)
		}
		if !sleep(ctx, pause) {
			return r, context.Cause(ctx)
		}
	}
}

const (
	// progressInterval is how often the worker records progress.
	progressInterval = time.Second
	// progressBytes bounds the progress of one call, unless it is that of one job.
	progressBytes = 8 << 20
)

// noteProgress notes that a job has new progress.
func (r *run) noteProgress(c *handlerContext) {
	r.progressMu.Lock()
	defer r.progressMu.Unlock()
	if r.progress == nil {
		r.progress = make(map[*handlerContext]bool)
		signal(r.hasProgress)
	}
	r.progress[c] = true
}

// progressLoop records the progress of jobs about once a second while there is any, until ctx ends.
func (r *run) progressLoop(ctx context.Context) {
	if r.results == nil {
		return
	}
	log := r.watchCalls("progress")
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hasProgress:
		}
		if progress := r.takeProgress(); len(progress) > 0 {
			log.report(r.keepProgress(ctx, progress))
		}
		if !sleep(ctx, progressInterval) {
			return
		}
	}
}

// newProgress is progress that is not yet recorded.
type newProgress struct {
	Progress
	of *handlerContext
}

// keepProgress records progress in parts, each with a time of its own. It keeps what could not be
// recorded for the next time, unless the handler sets newer progress. The error is the last one.
func (r *run) keepProgress(ctx context.Context, progress []newProgress) (err error) {
	for len(progress) > 0 {
		n, size := 0, 0
		for n < len(progress) && (n == 0 || size+len(progress[n].Value) <= progressBytes) {
			size += len(progress[n].Value)
			n++
		}
		if failed := r.callProgress(ctx, progress[:n]); failed != nil {
			err = failed
			r.putBackProgress(progress[:n])
		}
		progress = progress[n:]
	}
	return err
}

// callProgress calls KeepProgress.
func (r *run) callProgress(ctx context.Context, part []newProgress) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	values := make([]Progress, len(part))
	for i, p := range part {
		values[i] = p.Progress
	}
	return r.results.KeepProgress(ctx, values...)
}

// putBackProgress makes takeProgress return the progress of these jobs again.
func (r *run) putBackProgress(part []newProgress) {
	for _, p := range part {
		if result := p.of.result.Load(); result != nil { // else the handler has returned
			result.mu.Lock()
			result.isNew = true
			result.mu.Unlock()
			r.noteProgress(p.of)
		}
	}
}

// takeProgress returns the progress that is not yet recorded.
func (r *run) takeProgress() (progress []newProgress) {
	r.progressMu.Lock()
	waiting := r.progress
	r.progress = nil
	r.progressMu.Unlock()
	for c := range waiting {
		job, result := c.job.Load(), c.result.Load()
		if job == nil || result == nil {
			continue // the handler has returned
		}
		result.mu.Lock()
		progress = append(progress, newProgress{Progress{Job: job, Value: result.progress}, c})
		result.isNew = false
		result.mu.Unlock()
	}
	return progress
}
