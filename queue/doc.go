// Package queue has the words of errand, a job queue for programs that already have a SQL database:
// what an application says of its jobs.
//
// Application code uses three things. A [Kind] ties the code that enqueues to the code that
// handles. An [Enqueuer] writes jobs, in the caller's own transaction if there is one. A
// [github.com/errandhq/errand/engine.Worker] claims jobs and runs a [Handler].
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
//	err := engine.Worker{Backend: q, Handler: mux}.Run(ctx)
//
// Delivery is at least once. A handler can have its effects exactly once: it writes them in the
// transaction that settles its job (see [ErrSettled]). Settling names the fence that the claim
// drew, so it does nothing for a worker that has lost the job.
//
// The package links no module but the standard library. A backend has the four operations of
// [Queue]: Enqueue, Claim, Extend and Settle. What else it can do are methods of its type: a
// program that has opened a backend calls them. Package [github.com/errandhq/errand/queue/driver]
// is for those who write backends, or code for any backend.
package queue
