package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/errandhq/errand/queue"
)

// The exit codes. Scripts rely on them.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	exitNothing     = 3 // nothing matched
	ExitRefused     = 4 // a conflict, a right is missing, or not confirmed
	ExitFound       = 5 // doctor or explain found a problem
	exitUnknown     = 6 // not known whether it was done
	ExitInterrupted = 130
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// Usagef returns an error about wrong usage. Its exit code is 2.
func Usagef(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// Nothingf returns an error that says that nothing matched. Its exit code is 3.
func Nothingf(format string, args ...any) error {
	return &exitError{exitNothing, fmt.Errorf(format, args...)}
}

// Refusedf returns an error that says why the command was refused. Its exit code is 4.
func Refusedf(format string, args ...any) error {
	return &exitError{ExitRefused, fmt.Errorf(format, args...)}
}

// Foundf returns an error that says what doctor or explain has found. Its exit code is 5.
func Foundf(format string, args ...any) error {
	return &exitError{ExitFound, fmt.Errorf(format, args...)}
}

// IsNothing reports whether err says that nothing matched.
func IsNothing(err error) bool {
	own, ok := errors.AsType[*exitError](err)
	return ok && own.code == exitNothing
}

// exitCode returns the exit code for the error of a command. started is false if the command line
// itself was refused.
func exitCode(ctx context.Context, err error, started bool) int {
	var own *exitError
	var bad *queue.InvalidError
	switch {
	case err == nil:
		return ExitDone
	case ctx.Err() != nil:
		return ExitInterrupted
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, queue.ErrUnknown):
		return exitUnknown
	case !started || errors.As(err, &bad):
		return ExitUsage
	case IsDenied(err) || sqlState(err) == lockNotAvailable:
		return ExitRefused
	}
	return ExitFailed
}

const (
	insufficientPrivilege = "42501"
	lockNotAvailable      = "55P03"
	queryCanceled         = "57014"
	readOnlyTransaction   = "25006"
)

// IsDenied reports whether the database has refused something because its user lacks a right.
func IsDenied(err error) bool {
	_, isSetup := errors.AsType[*queue.SetupError](err)
	return sqlState(err) == insufficientPrivilege || isSetup && errors.Is(err, fs.ErrPermission)
}

// serverError is an error with which a PostgreSQL server has answered.
type serverError interface {
	error
	SQLState() string
}

// sqlState returns the SQLSTATE code of a PostgreSQL server's error, or "".
func sqlState(err error) string {
	if server, ok := errors.AsType[serverError](err); ok {
		return server.SQLState()
	}
	return ""
}
