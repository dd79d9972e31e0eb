package handling

import "errors"

// fault marks an error that the middleware of a chain has made itself, such as that of Tx when the
// database does not answer. It says nothing about the job, so middleware.Retry does not judge it:
// the worker retries the job up to its MaxAttempts. The mark changes neither its text nor its
// answer.
type fault struct{ error }

func (f *fault) Unwrap() error { return f.error }

// ChainFault returns err, which is not nil, as an error of the chain.
func ChainFault(err error) error { return &fault{err} }

// IsChainFault reports whether err, or an error in it, is an error of the chain.
func IsChainFault(err error) bool {
	_, ok := errors.AsType[*fault](err)
	return ok
}
