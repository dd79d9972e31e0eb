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
	var holders []ConnHolder
	for i := len(middleware) - 1; i >= 0; i-- {
		outer = middleware[i](outer)
		if holder, ok := outer.(ConnHolder); ok {
			holders = append(holders, holder)
		}
	}
	return chain{Handler: outer, inner: h, holders: holders}
}

type chain struct {
	Handler
	inner   Handler
	holders []ConnHolder // of what the middleware has made
}

func (c chain) Unwrap() Handler { return c.inner }

// EnqueuerFunc is a function as an Enqueuer.
type EnqueuerFunc func(ctx context.Context, db DB, jobs ...*Job) error

// Enqueue calls f.
func (f EnqueuerFunc) Enqueue(ctx context.Context, db DB, jobs ...*Job) error {
	return f(ctx, db, jobs...)
}

// EnqueueMiddleware wraps an Enqueuer in another: what [Middleware] is to a
// Handler. It leaves the caller's jobs as they are but for what Enqueue fills in.
type EnqueueMiddleware func(Enqueuer) Enqueuer

// ChainEnqueuer wraps e in the middleware, the first outermost:
// ChainEnqueuer(e, a, b) runs a, then b, then e. What it returns remembers e, so
// that [As] still finds what e can do besides.
func ChainEnqueuer(e Enqueuer, middleware ...EnqueueMiddleware) Enqueuer {
	outer := e
	for i := len(middleware) - 1; i >= 0; i-- {
		outer = middleware[i](outer)
	}
	return enqueuerChain{Enqueuer: outer, inner: e}
}

type enqueuerChain struct {
	Enqueuer
	inner Enqueuer
}

func (c enqueuerChain) Unwrap() Enqueuer { return c.inner }
