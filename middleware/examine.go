package middleware

import (
	"errors"

	"github.com/errandhq/errand/queue"
)

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
