package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/errandhq/errand/queue"
)

// The exit codes. Scripts rely on them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNothing     = 3 // nothing matched
	exitRefused     = 4 // a conflict, a right is missing, or not confirmed
	exitFound       = 5 // doctor or explain found a problem
	exitUnknown     = 6 // not known whether it was done
	exitInterrupted = 130
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func nothingf(format string, args ...any) error {
	return &exitError{exitNothing, fmt.Errorf(format, args...)}
}

func refusedf(format string, args ...any) error {
	return &exitError{exitRefused, fmt.Errorf(format, args...)}
}

func foundf(format string, args ...any) error {
	return &exitError{exitFound, fmt.Errorf(format, args...)}
}

// isNothing reports whether err says that nothing matched.
func isNothing(err error) bool {
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
		return exitDone
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, queue.ErrUnknown):
		return exitUnknown
	case !started || errors.As(err, &bad):
		return exitUsage
	case isDenied(err) || sqlState(err) == lockNotAvailable:
		return exitRefused
	}
	return exitFailed
}

const (
	insufficientPrivilege = "42501"
	lockNotAvailable      = "55P03"
	queryCanceled         = "57014"
	readOnlyTransaction   = "25006"
)

// isDenied reports whether the database has refused something because its user lacks a right.
func isDenied(err error) bool {
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
