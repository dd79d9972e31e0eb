package remote

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Error is what a gateway has answered instead of a result. Where package queue has an error for
// it, errors.As and errors.Is find that in it: [*queue.InvalidError], [*queue.SetupError],
// [*driver.SlowError], [queue.ErrUnknown].
type Error struct {
	Status  int    // the HTTP status
	Code    string // as the API's description names it, such as "draining"
	Message string
	// RetryAfter is after how long the gateway wants to be asked again; 0 means that it has not said.
	RetryAfter time.Duration
	Err        error // the error of package queue, or nil
}

// Error returns the code and the message.
func (e *Error) Error() string { return fmt.Sprintf("gateway: %s: %s", e.Code, e.Message) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// errorOf returns the error that a gateway has told.
func errorOf(answer *http.Response, told wire.Error) error {
	status := answer.StatusCode
	e := &Error{Status: status, Code: told.Code, Message: told.Message}
	if seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 31); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	switch told.Code {
	case wire.CodeInvalid, wire.CodeMalformed, wire.CodeTooLarge:
		e.Err = &queue.InvalidError{Field: goName(told.Field), Problem: told.Message}
	case wire.CodeToken, wire.CodeForbidden, wire.CodeSetup:
		e.Err = &queue.SetupError{Problem: fmt.Sprintf("the gateway refuses (HTTP status %d): %s", status, told.Message)}
	case wire.CodeUnknown:
		e.Err = queue.ErrUnknown
	case wire.CodeSlow:
		e.Err = &driver.SlowError{Job: &queue.Job{ID: told.Job}, Delay: told.Delay, Err: errors.New(told.Message)}
	}
	return e
}

// isNotFound reports whether the gateway says that there is no such job.
func isNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && e.Code == wire.CodeNotFound
}

// goName returns the name in Go of a field that the API names, such as "MaxAttempts" for
// "jobs[2].max_attempts".
func goName(field string) string {
	if i := strings.LastIndex(field, "."); i >= 0 {
		field = field[i+1:]
	}
	var b strings.Builder
	for word := range strings.SplitSeq(strings.TrimSuffix(field, "_ns"), "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}
