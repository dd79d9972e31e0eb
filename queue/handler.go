package queue

import "context"

// Handler runs jobs. [HandlerFunc] makes one of a function, [Mux] one of a handler for each kind.
type Handler interface {
	// HandleJob runs one job. Its error is its answer: nil means that the job is done, and [OutcomeOf]
	// lists the other answers. HandleJob should return soon after ctx ends. The cause of that
	// ([context.Cause]) is [ErrLost], [ErrShutdown], [ErrCancelled] or [context.DeadlineExceeded]. A
	// worker calls HandleJob concurrently. The handler may read job until it returns, and must not
	// change ID, Fence or Worker.
	HandleJob(ctx context.Context, job *Job) error
}

// HandlerFunc makes a [Handler] of a function.
type HandlerFunc func(ctx context.Context, job *Job) error

// HandleJob calls f.
func (f HandlerFunc) HandleJob(ctx context.Context, job *Job) error { return f(ctx, job) }

// Middleware returns a [Handler] that wraps the given one: it may do something before and after.
type Middleware func(Handler) Handler

// Chain wraps h in the middleware, the first outermost: Chain(h, a, b) runs a, then b, then h. A
// [engine.Worker] finds the [Mux] within the handler that Chain returns.
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
	holders []ConnHolder // handlers of the middleware that hold a connection
}

func (c chain) Unwrap() Handler { return c.inner }

// EnqueuerFunc makes an [Enqueuer] of a function.
type EnqueuerFunc func(ctx context.Context, db DB, jobs ...*Job) error

// Enqueue calls f.
func (f EnqueuerFunc) Enqueue(ctx context.Context, db DB, jobs ...*Job) error {
	return f(ctx, db, jobs...)
}

// EnqueueMiddleware returns an [Enqueuer] that wraps the given one. It does not change the caller's
// jobs, except the fields that Enqueue fills in.
type EnqueueMiddleware func(Enqueuer) Enqueuer

// ChainEnqueuer wraps e in the middleware, the first outermost: ChainEnqueuer(e, a, b) runs a, then
// b, then e. [driver.As] finds e's capabilities in the Enqueuer that ChainEnqueuer returns.
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
