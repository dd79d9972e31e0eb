// Package queue has the vocabulary and the engine of errand, a job queue for programs that already
// have a SQL database.
//
// Application code uses three things. A [Kind] ties the code that enqueues to the code that
// handles. An [Enqueuer] writes jobs, in the caller's own transaction if there is one. A [Worker]
// claims jobs and runs a [Handler].
//
//	var WelcomeEmail = queue.NewKind[Welcome]("email.welcome")
//
//	// In the business transaction: both are written, or neither.
//	err := q.Enqueue(ctx, tx, WelcomeEmail.New(Welcome{UserID: 42}))
//
//	// In the worker process.
//	mux := queue.NewMux()
//	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
//		return send(ctx, w)
//	})
//	err := queue.Worker{Backend: q, Handler: mux}.Run(ctx)
//
// Delivery is at least once. A handler can have its effects exactly once: it writes them in the
// transaction that settles its job (see [Settled]). Settling names the fence that the claim drew,
// so it does nothing for a worker that has lost the job.
//
// The package imports the standard library only. A backend has the four operations of [Queue]:
// Enqueue, Claim, Extend and Settle. Each further capability of a backend is a small interface,
// found with [As].
//
// # Log records
//
// A [Worker] logs failures, unless middleware has logged them ([Logged]). Similar failures have the
// same kind, and errors that differ in digits only. Five of them in a second have a record each.
// Further failures are counted, and a record says how many there were, every ten seconds and when
// the worker stops. Its message ends with "similar records left out". 50 different failures within
// ten seconds are told apart; further ones are counted together.
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
package queue
