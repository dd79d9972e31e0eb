package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrLost is the cause of a handler's cancelled context when its worker no
// longer holds the job: the lease ran out, or another has taken it.
var ErrLost = errors.New("queue: job lost: its lease ran out or another worker took it")

// ErrUnknown is Enqueue's error, outside the caller's own transaction, when it is not known
// whether the jobs were written: they were sent, and then the connection broke, or ctx
// ended, before the database had answered. Enqueueing them again may write them
// twice, unless they have a Key, for as long as the job that holds it is live. In a
// transaction of the caller's own it is the commit that may end like this.
var ErrUnknown = errors.New("queue: not known whether the jobs were written")

// ErrShutdown is the cause of a handler's cancelled context when the worker's
// Grace has ended. The job is released, without costing an attempt, unless the
// handler succeeds or gives an answer of its own.
var ErrShutdown = errors.New("queue: worker is shutting down")

// Settled is returned by a handler that has settled its job itself, with
// Settle in its own transaction: the worker then leaves the job alone. It should
// return soon after it has committed, because its worker may see meanwhile that
// the job is not held any more, and end its context.
var Settled = errors.New("queue: settled by its handler")

// InvalidError is the error for bad input: nothing was written.
type InvalidError struct {
	Field   string // the field of Job, ClaimRequest, Options or Worker, such as "Payload"
	Problem string // what is wrong with its value, in words; never the payload's bytes
	Err     error  // the cause, or nil
}

func (e *InvalidError) Error() string { return "queue: invalid " + e.Field + ": " + e.Problem }

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.Err }

func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// ErrNewer is within the [*SetupError] of a Migrate or Check whose database has been migrated by a
// newer version of errand. Migrate has changed nothing then; whether this program may run on that
// schema is for its operator to decide.
var ErrNewer = errors.New("the database's schema is newer than this program")

// SetupError is the error of a backend that cannot work as it is set up: a table is missing, or a
// right. A [Worker] whose claims have never succeeded stops with it. After its first successful
// claim the worker logs it like any other error and retries.
type SetupError struct {
	Problem string // what is missing and what to do about it
	Err     error  // the cause, or nil
}

func (e *SetupError) Error() string {
	if e.Err == nil {
		return e.Problem
	}
	return e.Problem + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *SetupError) Unwrap() error { return e.Err }

// PanicError is what a handler's panic becomes: an error like another, with the
// stack of the goroutine that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the panic's value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// answer is how RetryAfter, Discard and Snooze travel through wrapping.
type answer struct {
	action Action
	delay  time.Duration
	err    error
}

func (v *answer) Error() string {
	if v.err != nil {
		return v.err.Error()
	}
	return fmt.Sprintf("queue: %v after %v", v.action, v.delay)
}

func (v *answer) Unwrap() error { return v.err }

// RetryAfter says that the job failed with err and is to be tried again after d
// instead of after the default back-off. It costs an attempt. A negative d means 0.
func RetryAfter(d time.Duration, err error) error {
	return &answer{action: Retry, delay: d, err: err}
}

// Discard says that the job failed with err and is not to be tried again: it is
// dead, kept for a person to look at.
func Discard(err error) error { return &answer{action: Dead, err: err} }

// Snooze says that it is not yet time: the job is to be looked at again after d,
// and this run does not count as an attempt. A d of 0 or below sends the job behind
// those that are due already.
func Snooze(d time.Duration) error { return snooze(d, nil) }

func snooze(d time.Duration, err error) error {
	return &answer{action: Release, delay: d, err: err}
}

// maxErrorText is the longest error text, in bytes, that is stored with a job.
const maxErrorText = 8 << 10

// ErrorText returns err's message as backends store it: valid UTF-8 without NUL,
// at most 8 KiB, and safe even if err's own Error method panics. It is "" for nil.
func ErrorText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("%T: its Error method panicked", err)
		}
	}()
	text = err.Error()
	long := len(text) > maxErrorText
	text = strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "\uFFFD") // longer than what it replaces
	if long || len(text) > maxErrorText {
		text = text[:min(len(text), maxErrorText-len(ellipsis))]
		text = strings.ToValidUTF8(text, "") + ellipsis // without the rune that was cut in two
	}
	return text
}

const ellipsis = " …"
