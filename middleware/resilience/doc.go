// Package resilience keeps jobs away from what is broken or busy: [CircuitBreaker]
// while a dependency is down, [Bulkhead] while enough jobs of their kind run.
// What may not run is snoozed ([queue.Snooze]): it goes back to its queue for a
// while, costs no attempt, and its slot is free for other jobs.
//
//	handler := queue.Chain(mux,
//		middleware.Retry(middleware.OnType[error](0)),
//		resilience.CircuitBreaker(resilience.CircuitBreakerOptions{Failures: 10}),
//		resilience.Bulkhead(5, resilience.BulkheadOptions{MaxWait: time.Second}),
//		middleware.Timeout(30*time.Second),
//	)
//
// The circuit breaker stands inside of middleware.Retry, which makes dead what it
// does not try again, and outside of the bulkhead, so that no job waits for a place
// only to be turned away. Both stand outside of middleware.Timeout: waiting for
// a place is no part of the handler's time.
//
// Breakers and bulkheads are of this process: ten processes may each run so many
// jobs, and each finds out for itself that a dependency is down. The state
// machine and the semaphore are those of failsafe-go.
package resilience
