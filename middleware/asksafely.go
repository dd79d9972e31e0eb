package middleware

import (
	"errors"

	"github.com/errandhq/errand/queue"
)

// askSafely asks question about err, which is not nil, and returns err. If a method of err panics,
// as a nil pointer's may, askSafely asks about an error with err's text instead, and returns that.
// queue.OutcomeOf does the same.
func askSafely[T any](err error, question func(error) T) (answer T, readable error) {
	defer func() {
		if recover() != nil {
			readable = errors.New(queue.ErrorText(err))
			answer = question(readable)
		}
	}()
	_, _ = err.Error(), errors.Is(err, queue.ErrSettled) // what will be asked later
	return question(err), err
}
