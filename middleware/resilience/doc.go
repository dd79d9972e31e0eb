// Package resilience keeps jobs away from what is broken or busy: [CircuitBreaker] while a
// dependency is down, [Bulkhead] while enough jobs of their kind run. A job that may not run now is
// snoozed ([queue.Snooze]): it goes back to its queue for a while, costs no attempt, and leaves its
// slot to other jobs.
//
//	handler := queue.Chain(mux,
//		middleware.Retry(middleware.OnType[error](0)),
//		resilience.CircuitBreaker(resilience.CircuitBreakerOptions{Failures: 10}),
//		resilience.Bulkhead(5, resilience.BulkheadOptions{MaxWait: time.Second}),
//		middleware.Timeout(30*time.Second),
//	)
//
// The circuit breaker stands inside of middleware.Retry, because Retry makes jobs dead that it does
// not retry. It stands outside of the bulkhead, so that no job waits for a place only to be
// snoozed. Both stand outside of middleware.Timeout: waiting for a place does not use up the
// handler's time.
//
// Breakers and bulkheads belong to one process: ten processes may each run limit jobs, and each has
// to notice that a dependency is down. The state machine and the semaphore are failsafe-go's.
// Everything here is safe for concurrent use.
package resilience
