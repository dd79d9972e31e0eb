package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// told is the body of an error; embedded by this name, it leaves the name Error to the method.
type told = wire.Error

// apiError is an error as a client is told of it.
type apiError struct {
	told
	logged     error         // what the log is told, or nil
	retryAfter time.Duration // when to send the request again, rounded up to seconds; 0: after one
}

func (e *apiError) Error() string { return e.Message }

// failed returns an error with that code.
func failed(code, format string, args ...any) *apiError {
	return &apiError{told: wire.Error{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// invalid returns the error of a field with a bad value.
func invalid(field, format string, args ...any) *apiError {
	e := failed(wire.CodeInvalid, format, args...)
	e.Field = field
	return e
}

// errDraining tells clients to connect to a different gateway.
var errDraining = failed(wire.CodeDraining, "this gateway is about to end: connect to a different one")

// errDeaf tells workers that claim by themselves to poll, or to wait at a different gateway.
var errDeaf = failed(wire.CodeUnavailable, "the gateway does not hear of new jobs from its database at the moment: poll")

// explain returns what a client is told of err. Texts of databases may have values of jobs in them,
// so only the log gets these.
func (h *Handler) explain(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	if i, ok := errors.AsType[*queue.InvalidError](err); ok {
		return invalid(wire.FieldName(i.Field), "%s", i.Problem)
	}
	if s, ok := errors.AsType[*driver.SlowError](err); ok {
		e := failed(wire.CodeSlow, "payload not read in time, job released")
		e.Job, e.Delay, e.logged = s.Job.ID, s.Delay, err
		return e
	}
	var e *apiError
	switch setup, isSetup := errors.AsType[*queue.SetupError](err); {
	case isSetup:
		e = failed(wire.CodeSetup, "%s", setup.Problem)
	case errors.Is(err, queue.ErrUnknown):
		e = failed(wire.CodeUnknown, "not known whether the jobs were written")
	case errors.Is(err, context.DeadlineExceeded):
		e = failed(wire.CodeUnavailable, "the database has not answered in time")
	default:
		e = failed(wire.CodeUnavailable, "the database has answered with an error: the gateway's log has it")
	}
	e.logged = err
	return e
}

// isUnknown reports whether err says that it is not known whether jobs were written.
func isUnknown(err error) bool { return errors.Is(err, queue.ErrUnknown) }
