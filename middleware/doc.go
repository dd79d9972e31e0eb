// Package middleware holds what may stand between an [engine.Worker] and its handlers. Each piece
// is a [queue.Middleware], or makes one. [queue.Chain] joins them, the first outermost:
//
//	handler := queue.Chain(mux,
//		middleware.Log(nil),
//		middleware.Retry(middleware.On(errBusy, 0)),
//		middleware.Backoff(middleware.Exponential{Cap: 10 * time.Minute}),
//		middleware.Timeout(30*time.Second),
//	)
//	err := engine.Worker{Backend: q, Handler: handler}.Run(ctx)
//
// A piece can also stand around the handler of a single kind:
//
//	mux.Handle("report.build", middleware.Timeout(time.Minute)(build))
//
// What there is:
//
//   - [Recover] turns a panic into an error, for the middleware outside of it.
//   - [Timeout] ends a handler's context after a while.
//   - [Retry] says which errors are retried, and how often.
//   - [Backoff] says how long a failed job waits.
//   - [Log] logs every run, successes too.
//   - [Tx] runs a job in the transaction that settles it.
//   - [Dedup] runs the handler once for each key and window.
//   - [Encrypt] keeps payloads secret in the database.
//   - [Compress] makes long payloads short.
//   - [RequireTx] makes Enqueue refuse whatever is not a transaction.
//
// CircuitBreaker and Bulkhead are in middleware/resilience, traces and metrics in
// middleware/telemetry: these packages depend on other modules, this one does not.
//
// Retry and Backoff may stand in either order: Retry's rules see the same errors before and after
// Backoff has set their delay. An answer that the handler gave itself ([queue.RetryAfter],
// [queue.Discard], [queue.Snooze], [queue.ErrSettled]) passes both unchanged.
//
// Everything here is safe for concurrent use once it is made.
package middleware
