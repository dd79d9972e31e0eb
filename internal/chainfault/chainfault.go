// Package chainfault marks errors that the middleware of a chain has made itself, such as that of
// Tx when the database does not answer. They say nothing about the job, so middleware.Retry does
// not judge them: the worker retries the job up to its MaxAttempts.
package chainfault

import "errors"

// fault marks an error. It changes neither its text nor its answer.
type fault struct{ error }

func (f *fault) Unwrap() error { return f.error }

// Mark returns err, which is not nil, as an error of the chain.
func Mark(err error) error { return &fault{err} }

// Is reports whether err, or an error in it, has been marked.
func Is(err error) bool {
	_, ok := errors.AsType[*fault](err)
	return ok
}
