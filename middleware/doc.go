// Package middleware holds what may stand between a [queue.Worker] and its
// handlers. Each piece is a [queue.Middleware], or makes one, and is joined to the
// others by [queue.Chain], the first outermost:
//
//	handler := queue.Chain(mux,
//		middleware.Log(nil),
//		middleware.Retry(middleware.On(errBusy, 0)),
//		middleware.Backoff(middleware.Exponential{Cap: 10 * time.Minute}),
//		middleware.Timeout(30*time.Second),
//	)
//	err := queue.Worker{Backend: q, Handler: handler}.Run(ctx)
//
// Around the handler of a single kind it stands alone:
//
//	mux.Handle("report.build", middleware.Timeout(time.Minute)(build))
//
// What there is:
//
//   - [Recover] turns a panic into an error, for the middleware outside of it.
//   - [Timeout] ends a handler's context after a while.
//   - [Retry] says which errors are tried again, and how often.
//   - [Backoff] says how long a failed job waits.
//   - [Log] logs every run, successes too.
//   - [Tx] runs a job in the transaction that settles it.
//   - [Dedup] runs the handler once for each key and window.
//   - [Encrypt] keeps payloads secret in the database.
//   - [Compress] makes long payloads short.
//
// In packages of their own, because they depend on others' modules, are
// middleware/resilience (CircuitBreaker, Bulkhead) and middleware/telemetry.
//
// Retry and Backoff may stand in either order, with the same outcome: Retry's
// rules look at errors to which Backoff has given a delay, as at plain ones. A
// answer that the handler gave itself ([queue.RetryAfter], [queue.Discard],
// [queue.Snooze], [queue.Settled]) passes both unchanged.
package middleware
