// Package engine claims jobs, runs their handlers and settles them. A [Worker] is a struct literal:
//
//	err := engine.Worker{Backend: q, Handler: mux}.Run(ctx)
//
// Its Run owns every goroutine that it starts. [Await] waits for one job. A [Ledger] logs and
// counts for programs that settle jobs on behalf of others.
//
// # Log records
//
// A Worker logs failures, unless middleware has logged them ([queue.Logged]). Similar failures
// have the same kind, and errors that differ in digits only. Five of them in a second have a record
// each. Further failures are counted, and a record says how many there were, every ten seconds and
// when the worker stops. Its message ends with "similar records left out". 50 different failures
// within ten seconds are told apart; further ones are counted together.
//
// Messages begin with "errand: ". The records of middleware.Log have the same keys:
//
//	worker      name of the worker that logs
//	job         ID of the job
//	kind        kind of the job
//	queue       queue of the job
//	attempt     number of the run, from 1
//	error       text of the error
//	retry_in    how long until a failed job is due again
//	due_in      how long until a released job is due again
//	retried     an earlier call of Settle named this outcome and failed
//	cause       why a handler's context has ended
//	stack       stack of a panic, once for similar ones, or of a handler or an OnDead that ignores
//	            the end of its context
//	omitted     how many similar failures have no record, or how many dead jobs no call of OnDead
//	within      the time in which the omitted failures came
//	took        how long a handler ran
//	locked      how many jobs a transaction has locked
//	failures    how many calls in a row have failed
//	failed_for  how long they have failed
//	poll        how often the worker polls
//	kinds       kinds whose jobs go to the named queue, which no worker of the Mux serves
//	handlers    how many handlers a worker waits for that shuts down
//	grace       for how long it waits at most
//	interrupted how many jobs were released at shutdown although their handlers ran
//	unstarted   how many jobs were released at shutdown before their handlers ran
//	free, held  connections of the pool that are left, and what holds the others
package engine
