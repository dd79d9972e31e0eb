package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/internal/handling"
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
// function of [Kind.HandleMany], in OnDead, or where the backend is not a [driver.ResultKeeper].
// SetOutput does not wait, and may be called concurrently.
func SetOutput(ctx context.Context, v any) error {
	return set(ctx, "Output", v, func(r *handling.Result, text json.RawMessage) { r.Output = text })
}

// SetProgress makes v, as encoding/json marshals it, the progress of the job that is being handled:
// a number, or a struct. The worker records it within about a second, and leaves out values that
// newer ones have replaced by then. What is set in the last second of a run may be missing. It is
// an error where SetOutput is one. It does not wait, and may be called concurrently.
func SetProgress(ctx context.Context, v any) error {
	return set(ctx, "Progress", v, func(r *handling.Result, text json.RawMessage) { r.Progress, r.IsNew = text, true })
}

// set checks v and lets store keep it with the job that ctx is for.
func set(ctx context.Context, field string, v any, store func(*handling.Result, json.RawMessage)) error {
	c := handling.From(ctx)
	if problem := c.Refusal(); problem != "" {
		return invalid(field, "%s", problem)
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = checkOutput(field, text)
	}
	if err != nil {
		return fmt.Errorf("queue: set %s: %w", field, err)
	}
	c.Set(func(r *handling.Result) { store(r, text) })
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
	r := handling.From(ctx).Result()
	if r == nil {
		return nil
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Output
}

// ProgressOf returns what SetProgress has got with a handler's context, or nil. It is for tests.
func ProgressOf(ctx context.Context) json.RawMessage {
	r := handling.From(ctx).Result()
	if r == nil {
		return nil
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Progress
}

// WithResults returns a context in which SetOutput and SetProgress work as in a worker's. It is for
// tests that call a handler, and for code that runs handlers without an [engine.Worker].
func WithResults(ctx context.Context) context.Context { return &handling.Context{Context: ctx} }

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
