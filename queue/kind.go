package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kind ties the code that enqueues a kind of job to the code that handles it. encoding/json
// marshals values of type T to the jobs' payloads and back. Declare a Kind once, as a package
// variable. It is a plain value, safe for concurrent use.
//
// A literal gives the jobs of the kind defaults:
//
//	var Report = queue.Kind[ReportArgs]{Name: "report.build", Queue: "slow", MaxAttempts: 3}
type Kind[T any] struct {
	// Name is the kind's name: 1 to 200 printable ASCII bytes. Required. Do not change it while
	// jobs of the kind exist.
	Name string
	// Queue, Priority, MaxAttempts and Ordered are copied to the jobs that New makes. Their zero
	// values mean the same as in [Job]. An [engine.Worker] that is to run the jobs must serve Queue.
	Queue       string
	Priority    int32
	MaxAttempts int
	Ordered     bool
	// GroupBy returns the Group of the job that New makes with v; nil means no group. New does not
	// call it if v cannot be marshalled. Example: func(r ReportArgs) string { return r.Tenant }
	GroupBy func(v T) string
	// Timeout replaces the [engine.Worker]'s Timeout for jobs of this kind. 0 means the worker's;
	// below 0 means no limit. If the worker cannot find the [Mux] that handles the kind, the shorter
	// of the two applies.
	Timeout time.Duration
	// DiscardMisfits makes a job dead at once if its payload does not fit T. By default the job fails
	// and is retried, because a worker of a newer release may be able to run it.
	DiscardMisfits bool
}

// NewKind returns the kind with that name and zero values in its other fields.
func NewKind[T any](name string) Kind[T] { return Kind[T]{Name: name} }

// New returns a new job with v as its payload, which is not enqueued yet. If encoding/json cannot
// marshal v, Enqueue returns an [*InvalidError] that names the kind.
func (k Kind[T]) New(v T) *Job {
	job := &Job{Kind: k.Name, Queue: k.Queue, Priority: k.Priority, MaxAttempts: k.MaxAttempts, Ordered: k.Ordered}
	payload, err := json.Marshal(v)
	if err != nil {
		job.err = &InvalidError{Field: "Payload", Problem: fmt.Sprintf("of kind %q: %v", k.Name, err), Err: err}
		return job
	}
	job.Payload = payload
	if k.GroupBy != nil {
		job.Group = k.GroupBy(v)
	}
	return job
}

// Schedule returns a schedule that enqueues such a job, with v as its payload, at the times of
// spec. It is not set yet: see [driver.Scheduler].
func (k Kind[T]) Schedule(name, spec string, v T) Schedule {
	return Schedule{Name: name, Spec: spec, Job: k.New(v)}
}

// Args unmarshals a job's payload. If the payload does not fit T, the error is an [*InvalidError].
// Its text contains nothing of the payload.
func (k Kind[T]) Args(job *Job) (T, error) {
	var v T
	payload := job.Payload
	if payload == nil {
		payload = json.RawMessage("null")
	}
	if err := json.Unmarshal(payload, &v); err != nil {
		problem := fmt.Sprintf("of kind %q: %s", k.Name, misfitText(err))
		if encoding := job.Headers[EncodingHeader]; encoding != "" {
			problem += fmt.Sprintf(": its header %s is %.100q, and no middleware has decoded it", EncodingHeader, encoding)
		}
		return v, &InvalidError{Field: "Payload", Problem: problem, Err: err}
	}
	return v, nil
}

// misfitText says why a payload does not fit. It is used instead of the text of err, because errors
// of encoding/json, and of types that implement its Unmarshaler, may quote the payload.
func misfitText(err error) string {
	var t *json.UnmarshalTypeError
	if !errors.As(err, &t) {
		return fmt.Sprintf("does not fit (%T)", err)
	}
	what := t.Type.String()
	if t.Field != "" {
		what += " " + t.Field
	}
	return fmt.Sprintf("does not fit %s at byte %d", what, t.Offset)
}

// Handle registers fn with mux as the handler of the kind's jobs, wrapped in the middleware as by
// [Chain], the first outermost. The middleware runs before the payload is unmarshalled. If the
// payload does not fit T, or is still encoded ([EncodingHeader]), the job is retried, with
// [RetryAfter]: a worker of a different release may be able to run it. DiscardMisfits makes a job
// dead at once whose payload does not fit T. Handle panics if mux already handles the kind; see
// [Mux.Handle].
func (k Kind[T]) Handle(mux *Mux, fn func(ctx context.Context, job *Job, v T) error, middleware ...Middleware) {
	mux.register(k.Name, route{timeout: k.Timeout, queue: k.Queue, handler: Chain(HandlerFunc(func(ctx context.Context, job *Job) error {
		v, err := k.argsOrAnswer(job)
		if err != nil {
			return err
		}
		return fn(ctx, job, v)
	}), middleware...)})
}

// argsOrAnswer is Args, except that its error is the answer to a job whose payload does not fit T.
func (k Kind[T]) argsOrAnswer(job *Job) (v T, answer error) {
	v, err := k.Args(job)
	switch {
	case err == nil:
		return v, nil
	case k.DiscardMisfits && job.Headers[EncodingHeader] == "":
		return v, Discard(err)
	}
	return v, RetryAfter(Backoff(job.Attempt), err)
}
