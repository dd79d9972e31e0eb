package middleware

import (
	"context"
	"errors"
	"fmt"

	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/queue"
)

// Retry says which errors are retried: those that a rule matches, as often as the first such rule
// allows. A job that fails with any other error, or has used up the rule's attempts, is dead at
// once, as with [queue.Discard], and its error is kept. Without rules no error is retried.
//
// Between attempts the job is back in its table, where any worker may claim it, and its MaxAttempts
// remains the upper limit. [Backoff] says how long it waits there.
//
// Retry does not change an answer that the handler gave itself ([queue.RetryAfter],
// [queue.Discard], [queue.Snooze], [queue.ErrSettled]), nor the error of a handler whose context
// ended with [queue.ErrShutdown] or [queue.ErrLost]. A timeout is an error like any other:
// On(context.DeadlineExceeded, 0) matches it. Retry sees a panic only if [Recover] stands inside of
// it; otherwise the panic passes and the worker retries the job.
//
// The rules judge the handler's errors alone, those of its statements in [Tx]'s transaction too. An
// error that the chain makes itself says nothing about the job. Retry passes it on, and the job is
// retried up to its MaxAttempts. Such are: Tx cannot begin, settle or commit; [Encrypt] lacks the
// key; the Handler of Encrypt or [Compress] is missing or in the wrong place; a [DedupStore] fails;
// time ends while the job waits for its Bulkhead. If the context has ended when the handler
// returns, the error of Tx counts as the handler's.
//
// Retry panics if a rule was not made by [On], [OnType] or [OnFunc], has nothing to match, or has
// attempts below 0.
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
			action, answered := queue.ActionOf(err)
			if answered && action != queue.Retry || queue.EndedByWorker(ctx) {
				return err
			}
			byBackoff, err := askSafely(err, isBackedOff)
			if answered && !byBackoff || handling.IsChainFault(err) || shouldRetry(rules, err, job.Attempt) {
				return err
			}
			return queue.Discard(err)
		})
	}
}

// shouldRetry reports whether a job whose attempt failed with err is retried.
func shouldRetry(rules []Rule, err error, attempt int) bool {
	for _, rule := range rules {
		if rule.match(err) {
			return rule.attempts == 0 || attempt < rule.attempts
		}
	}
	return false
}

// Rule says how often a job may run that fails with a certain sort of error. [On], [OnType] and
// [OnFunc] make one; the zero Rule makes [Retry] panic.
//
// Attempts count all runs of the job, those that failed with other errors included: with 3, a job
// that fails for the third time is dead. 0 means as often as its MaxAttempts allows; 1 means no
// retry.
type Rule struct {
	match    func(error) bool
	attempts int
}

// On matches an error if errors.Is finds target in it.
func On(target error, attempts int) Rule {
	if target == nil {
		return Rule{attempts: attempts}
	}
	return OnFunc(func(err error) bool { return errors.Is(err, target) }, attempts)
}

// OnType matches an error if errors.As finds an E in it; E may be an interface. OnType[error]
// matches every error: it can be the last rule, for all others.
func OnType[E error](attempts int) Rule {
	return OnFunc(func(err error) bool { _, ok := errors.AsType[E](err); return ok }, attempts)
}

// OnFunc matches an error if match returns true. The chain may have wrapped the error, so match
// should use errors.Is and errors.As. It is called concurrently. A panic of match counts as the
// handler's.
func OnFunc(match func(error) bool, attempts int) Rule {
	return Rule{match: match, attempts: attempts}
}
