// Package handling has the context of a handler, which package queue and the engine share: it holds
// what a handler says of its job. It also has the mark of errors that a handler's middleware has
// made itself.
package handling

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrGoexit is the error of a handler that has called runtime.Goexit.
var ErrGoexit = errors.New("queue: handler called runtime.Goexit")

// Context is the context of a handler.
type Context struct {
	context.Context
	// Run is what the engine knows of the handler; nil outside of a worker.
	Run Run
	// IsShared means that it is the context of several jobs, for which nothing can be set.
	IsShared bool

	result atomic.Pointer[Result] // nil until something is set
}

// Run is a handler that a worker runs.
type Run interface {
	// Refusal returns why the handler can set nothing, or "".
	Refusal() string
	// Progressed is called when the handler has set progress. The caller holds the lock of the Result.
	Progressed()
}

// Result is what a handler has said of its job.
type Result struct {
	Mu               sync.Mutex
	Output, Progress json.RawMessage
	IsNew            bool // Progress is not yet recorded
}

type contextKey struct{}

// Value implements [context.Context].
func (c *Context) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// From returns the context of the handler that ctx is for, or nil.
func From(ctx context.Context) *Context {
	c, _ := ctx.Value(contextKey{}).(*Context)
	return c
}

// Refusal returns why nothing can be set in c, or "".
func (c *Context) Refusal() string {
	switch {
	case c == nil || c.IsShared:
		return "no single job is being handled in this context"
	case c.Run != nil:
		return c.Run.Refusal()
	}
	return ""
}

// Set lets store change the Result. It does nothing if the handler has returned meanwhile.
func (c *Context) Set(store func(*Result)) {
	c.result.CompareAndSwap(nil, new(Result))
	r := c.result.Load()
	if r == nil {
		return
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	store(r)
	if c.Run != nil && r.IsNew {
		c.Run.Progressed()
	}
}

// Result returns what the handler has set, or nil.
func (c *Context) Result() *Result {
	if c == nil {
		return nil
	}
	return c.result.Load()
}

// Forget drops what the handler has set, once it has returned. The context itself may live on: in a
// goroutine of the handler, and with the others of its block.
func (c *Context) Forget() { c.result.Store(nil) }
