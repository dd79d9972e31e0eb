package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrLost is the cause of a handler's cancelled context when its worker is no longer the job's
// holder, or cannot extend its lease in time. After it the worker settles the job only if it still
// holds it. It is also in the error that [engine.Worker].OnDead gets for a reclaimed job.
var ErrLost = errors.New("queue: job lost: its lease expired or a different worker holds it")

// ErrCancelled is the cause of a handler's cancelled context when somebody has cancelled the job
// (see [driver.Canceller]). If the handler then returns nil, the job is completed. If it returns
// [Discard], the job is dead. Any other error makes it cancelled.
var ErrCancelled = errors.New("queue: job cancelled")

// ErrUnknown is the error of an Enqueue outside the caller's transaction that does not know whether
// the jobs were written: the connection broke, or ctx ended, before the database had answered. A
// second Enqueue may write the jobs twice. Jobs with a Key are not written twice while the first
// job is live. In a caller's transaction the commit may fail in this way instead.
var ErrUnknown = errors.New("queue: not known whether the jobs were written")

// ErrShutdown is the cause of a handler's cancelled context when the worker's Grace has ended. If
// the handler then returns a plain error, the worker releases the job, which costs no attempt.
var ErrShutdown = errors.New("queue: worker is shutting down")

// ErrSettled is the answer of a handler that has settled its job itself, with Settle in its own
// transaction. The worker then does nothing more with the job. Logs and metrics count it as done.
// The handler should return soon after its commit: the worker may notice that it no longer holds
// the job, and cancel the handler's context.
var ErrSettled = errors.New("queue: settled by its handler")

// ErrExpired is in the error of a job that middleware.Expire has discarded, because nobody needs
// its work any more.
var ErrExpired = errors.New("queue: job expired before it ran")

// InvalidError is the error for bad input, found before anything was written. Find it with
// errors.As.
type InvalidError struct {
	Field   string // the field of Job, ClaimRequest, Options or Worker, such as "Payload"
	Problem string // what is wrong with the value; contains nothing of a payload
	Err     error  // the cause, or nil
}

// Error names the field and the problem.
func (e *InvalidError) Error() string { return "queue: invalid " + e.Field + ": " + e.Problem }

// Unwrap returns Err.
func (e *InvalidError) Unwrap() error { return e.Err }

func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// ErrNewer is the cause in the [*SetupError] of a Migrate or Check that finds a schema of a newer
// version of errand. Migrate has then changed nothing. The operator decides whether this program
// may run on that schema.
var ErrNewer = errors.New("the database's schema is newer than this program")

// SetupError is the error of a backend that is not set up: a table is missing, or a right. If it is
// the error of an [engine.Worker]'s first claims, Run returns it. After its first successful claim
// the worker logs it like any other error and retries.
type SetupError struct {
	Problem string // what is missing and what to do about it
	Err     error  // the cause, or nil
}

// Error returns the problem and the cause.
func (e *SetupError) Error() string {
	if e.Err == nil {
		return e.Problem
	}
	return e.Problem + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *SetupError) Unwrap() error { return e.Err }

// answer is the error that RetryAfter, Discard, Snooze and Throttle return.
type answer struct {
	action OutcomeAction
	delay  time.Duration
	err    error

	throttles bool
}

func (a *answer) Error() string {
	if a.err != nil {
		return a.err.Error()
	}
	switch a.action {
	case Dead:
		return "queue: discarded without an error"
	case Release:
		return fmt.Sprintf("queue: snoozed for %v", max(a.delay, 0))
	}
	return fmt.Sprintf("queue: failed without an error, retry after %v", max(a.delay, 0))
}

func (a *answer) Unwrap() error { return a.err }

// RetryAfter is the answer of a handler whose job failed with err and should run again after d
// instead of after the default back-off. The run costs an attempt. A d below 0 means 0. After the
// last attempt the job is dead. err may be nil: then the text of the answer is stored in its place.
func RetryAfter(d time.Duration, err error) error {
	return &answer{action: Retry, delay: d, err: err}
}

// Discard is the answer of a handler whose job failed with err and should not run again: the job is
// dead, and kept for a person. err may be nil, as in [RetryAfter].
func Discard(err error) error { return &answer{action: Dead, err: err} }

// Snooze is the answer of a handler whose job should run later: the job is released for d, and the
// run costs no attempt. With a d of 0 or below the job is due at once, after the jobs that are due
// already.
func Snooze(d time.Duration) error { return snooze(d, nil) }

// Throttle is the answer of a handler whose job was turned away because too many have come, as
// with HTTP status 429: the job is released for d, and the run costs no attempt. If the job's group
// has a [Rate], no job of the group is claimed for d, and then one at a time at that rate. If it
// has none, but its queue has, that is so for the queue. Otherwise Throttle is like [Snooze]. err
// may be nil; its text is not stored.
func Throttle(d time.Duration, err error) error {
	return &answer{action: Release, delay: d, err: err, throttles: true}
}

func snooze(d time.Duration, err error) error {
	return &answer{action: Release, delay: d, err: err}
}

// Logged returns err marked as logged: middleware that has logged a failed run returns it, so that
// the [engine.Worker] does not log the failure once more. as is the outcome that the middleware has
// logged, which it finds with [OutcomeOf]. For an error that is no answer, the job waits for the
// Delay of as, so the log is right about it. If the outcome has a different action or delay in the
// end, because middleware outside has changed it, the worker logs it. The error has err's
// [ErrorText], and errors.Is and errors.As find in it what they find in err. Logged returns nil for
// a nil err.
func Logged(err error, as Outcome) error {
	if err == nil {
		return nil
	}
	return &logged{err: err, action: as.Action, delay: as.Delay}
}

// logged is the error that Logged returns.
type logged struct {
	err    error
	action OutcomeAction
	delay  time.Duration
}

func (l *logged) Error() string { return ErrorText(l.err) }
func (l *logged) Unwrap() error { return l.err }

// IsLoggedAs reports whether middleware has logged that outcome. The engine asks it.
func (l *logged) IsLoggedAs(o Outcome) bool { return l.action == o.Action && l.delay == o.Delay }

// maxErrorText is the longest error text that is stored with a job, in bytes.
const maxErrorText = 8 << 10

// ErrorText returns err's message as backends store it: valid UTF-8 without NUL, and at most 8 KiB.
// It returns "" for nil. If err's Error method panics, ErrorText returns a text that says so.
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
	text = strings.ReplaceAll(text, "\x00", "\uFFFD") // may make the text longer
	if long || len(text) > maxErrorText {
		text = text[:min(len(text), maxErrorText-len(ellipsis))]
		text = strings.ToValidUTF8(text, "") + ellipsis // without the rune that was cut in two
	}
	return text
}

const ellipsis = " …"
