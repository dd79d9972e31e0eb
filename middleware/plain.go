package middleware

import (
	"context"
	"errors"

	"github.com/errandhq/errand/queue"
)

// endedByWorker reports whether a plain error is the echo of a context that the
// worker has ended: then [queue.OutcomeOf] gives the job back.
func endedByWorker(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, queue.ErrShutdown) || errors.Is(cause, queue.ErrLost)
}

// examine puts a question to err, which is not nil, and returns err. Where err's own
// methods panic, as a nil pointer's may, it puts the question to an error of err's
// text and returns that, which is what queue.OutcomeOf takes err for.
func examine[T any](err error, question func(error) T) (answer T, readable error) {
	defer func() {
		if recover() != nil {
			readable = errors.New(queue.ErrorText(err))
			answer = question(readable)
		}
	}()
	_, _ = err.Error(), errors.Is(err, queue.Settled) // what will be asked later
	return question(err), err
}
