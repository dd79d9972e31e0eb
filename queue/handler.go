package queue

import "context"

// Handler runs jobs.
type Handler interface {
	// HandleJob runs one job and says by its error what came of it: see
	// [OutcomeOf]. It should return soon after ctx ends, whose cause
	// ([context.Cause]) is [ErrLost], [ErrShutdown] or
	// [context.DeadlineExceeded]. It is called concurrently. The job is the
	// handler's to read until it returns; it must not change ID, Fence or Worker.
	HandleJob(ctx context.Context, job *Job) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, job *Job) error

// HandleJob calls f.
func (f HandlerFunc) HandleJob(ctx context.Context, job *Job) error { return f(ctx, job) }

// Middleware wraps a Handler in another.
type Middleware func(Handler) Handler

// Chain wraps h in the middleware, the first outermost: Chain(h, a, b) runs a,
// then b, then h. What it returns remembers h, so that a [Worker] still finds
// the [Mux] within.
func Chain(h Handler, middleware ...Middleware) Handler {
	outer := h
	for i := len(middleware) - 1; i >= 0; i-- {
		outer = middleware[i](outer)
	}
	return chain{Handler: outer, inner: h}
}

type chain struct {
	Handler
	inner Handler
}

func (c chain) Unwrap() Handler { return c.inner }
