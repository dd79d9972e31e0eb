package middleware

import (
	"context"
	"errors"
	"fmt"

	"github.com/errandhq/errand/queue"
)

// Retry says which errors are worth another attempt: those that a rule matches,
// as often as the first such rule says. A job that fails with any other, or has
// been started that often, is dead at once, as with [queue.Discard]; its error is
// kept. Without rules no error is tried again.
//
// The attempts are the queue's: between them the job is back in its table,
// where any worker may take it, and its MaxAttempts remains the upper limit.
// [Backoff] says how long it waits there.
//
// Retry leaves alone what says itself what is to become of the job
// ([queue.RetryAfter], [queue.Discard], [queue.Snooze], [queue.Settled]), and errors
// of handlers whose context ended with [queue.ErrShutdown] or [queue.ErrLost].
// A timeout is an error like another, which On(context.DeadlineExceeded, 0)
// matches. A panic is one only where [Recover] stands inside of Retry; otherwise
// it passes, and the job is tried again.
//
// Retry panics if a rule has nothing to match with, or attempts below 0.
func Retry(rules ...Rule) queue.Middleware {
	for i, rule := range rules {
		if rule.match == nil {
			panic(fmt.Sprintf("middleware: Retry: rules[%d] matches nothing: make it with On, OnType or OnFunc", i))
		}
		if rule.attempts < 0 {
			panic(fmt.Sprintf("middleware: Retry: rules[%d]: attempts %d: at least 0", i, rule.attempts))
		}
	}
	return func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			err := next.HandleJob(ctx, job)
			action, said := queue.ActionOf(err)
			if said && action != queue.Retry || queue.EndedByWorker(ctx) {
				return err
			}
			byBackoff, err := examine(err, isPaced)
			if said && !byBackoff || worthAnother(rules, err, job.Attempt) {
				return err
			}
			return queue.Discard(err)
		})
	}
}

// worthAnother reports whether a job whose attempt failed with err is to be tried again.
func worthAnother(rules []Rule, err error, attempt int) bool {
	for _, rule := range rules {
		if rule.match(err) {
			return rule.attempts == 0 || attempt < rule.attempts
		}
	}
	return false
}

// Rule says of one sort of errors how often a job that fails with it may be
// started. [On], [OnType] and [OnFunc] make one.
//
// Their attempts count all starts of the job, the first one and those that
// failed with other errors included: with 3, a job that fails for the third time is
// dead. 0 means as often as its MaxAttempts allows; 1 means never again.
type Rule struct {
	match    func(error) bool
	attempts int
}

// On matches what errors.Is finds to be target.
func On(target error, attempts int) Rule {
	if target == nil {
		return Rule{attempts: attempts}
	}
	return OnFunc(func(err error) bool { return errors.Is(err, target) }, attempts)
}

// OnType matches what errors.As finds to be an E, which may be an interface.
// OnType[error] matches every error, as a last rule for all others.
func OnType[E error](attempts int) Rule {
	return OnFunc(func(err error) bool { _, ok := errors.AsType[E](err); return ok }, attempts)
}

// OnFunc matches the errors for which match is true. They come as the chain has
// wrapped them, so match should look into them with errors.Is and errors.As. It is
// called concurrently. If it panics, it is as if the handler had.
func OnFunc(match func(error) bool, attempts int) Rule {
	return Rule{match: match, attempts: attempts}
}
