// Package queue is the vocabulary and the engine of errand, a job queue for
// programs that already have a SQL database.
//
// Application code meets three things here. A [Kind] ties the code that
// enqueues to the code that handles; an [Enqueuer] writes jobs, in the caller's
// own transaction; a [Worker] claims them and runs a [Handler].
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
// Delivery is at least once. A job whose effects are written in the transaction
// that settles it (see [Settled]) has them exactly once, because settling names
// the fence that its claim drew, and a worker that lost the job no longer holds it.
//
// The package imports the standard library only. A backend is anything with the
// four methods of [Queue]; what only some backends can do is a small interface
// of its own, found with [As].
package queue
