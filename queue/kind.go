package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kind ties the code that enqueues a kind of job to the code that handles it: T
// is what its payload is marshalled from and to by encoding/json. It is declared
// once, as a package variable, and is a plain value, safe for concurrent use.
//
// A literal gives the kind's jobs defaults:
//
//	var Report = queue.Kind[ReportArgs]{Name: "report.build", Queue: "slow", MaxAttempts: 3}
type Kind[T any] struct {
	// Name is the kind's name: 1 to 200 printable ASCII bytes, never changed
	// while jobs of it exist.
	Name string
	// Queue, Priority and MaxAttempts are given to the jobs that New makes; zero
	// values mean the same as in [Job].
	Queue       string
	Priority    int32
	MaxAttempts int
	// Timeout replaces the worker's Timeout for jobs of this kind; 0 leaves it,
	// below 0 means none. Where the worker cannot find the [Mux] that handles the
	// kind, the shorter of the two applies.
	Timeout time.Duration
}

// NewKind returns the kind of that name without defaults of its own.
func NewKind[T any](name string) Kind[T] { return Kind[T]{Name: name} }

// New makes a job of v. It never fails: what encoding/json cannot marshal
// surfaces as Enqueue's error, which names the kind.
func (k Kind[T]) New(v T) *Job {
	job := &Job{Kind: k.Name, Queue: k.Queue, Priority: k.Priority, MaxAttempts: k.MaxAttempts}
	payload, err := json.Marshal(v)
	if err != nil {
		job.err = &InvalidError{Field: "Payload", Problem: fmt.Sprintf("of kind %q: %v", k.Name, err), Err: err}
		return job
	}
	job.Payload = payload
	return job
}

// Args reads a job's payload back. Where that does not fit T the error is an
// [*InvalidError], whose text shows nothing of the payload.
func (k Kind[T]) Args(job *Job) (T, error) {
	var v T
	payload := job.Payload
	if payload == nil {
		payload = json.RawMessage("null")
	}
	if err := json.Unmarshal(payload, &v); err != nil {
		return v, &InvalidError{Field: "Payload", Problem: fmt.Sprintf("of kind %q: %s", k.Name, misfit(err)), Err: err}
	}
	return v, nil
}

// misfit says why a payload does not fit. The texts of encoding/json, and of what
// implements its Unmarshaler, quote what they have read.
func misfit(err error) string {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		return fmt.Sprintf("does not fit %v %s at byte %d", t.Type, t.Field, t.Offset)
	}
	return fmt.Sprintf("does not fit (%T)", err)
}

// Handle registers fn for the kind's jobs, within the middleware, the first
// outermost, as [Chain] does. The middleware sees the payload before it is read
// into T. A payload that does not fit T makes the job dead at once, since another
// attempt would read the same bytes. Handle panics where mux already handles the
// kind; see [Mux.Handle].
func (k Kind[T]) Handle(mux *Mux, fn func(ctx context.Context, job *Job, v T) error, middleware ...Middleware) {
	mux.register(k.Name, k.Timeout, Chain(HandlerFunc(func(ctx context.Context, job *Job) error {
		v, err := k.Args(job)
		if err != nil {
			return Discard(err)
		}
		return fn(ctx, job, v)
	}), middleware...))
}
