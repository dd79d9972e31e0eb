// Package telemetry gives errand OpenTelemetry traces and metrics.
//
//	tel, err := telemetry.New(telemetry.Options{}) // the global providers and propagator
//	q := tel.Queue(pg)                             // spans and metrics of the queue's operations
//	h := queue.Chain(mux, tel.Handler)             // and of the handlers
//	err = engine.Worker{Backend: q, Handler: h}.Run(ctx)
//
// It follows the semantic conventions for messaging of version 1.43.0, whose status is
// "development", so names may still change. errand's own attributes begin with errand. No attribute
// contains a payload, header or key. The description of a failed span's status is the error's text.
//
// # Spans
//
// A span's name is the operation and the queue, or the operation alone if a batch has several
// queues. Operations have errand's names; messaging.operation.type has the convention's.
//
//	enqueue  PRODUCER  send     each Enqueue
//	claim    CLIENT    receive  each Claim that returned jobs or failed
//	process  CONSUMER  process  each run of a handler
//	settle   CLIENT    settle   each Settle
//	extend   CLIENT             each Extend that lost jobs or failed
//
// The context of the enqueue span is the creation context of each of its jobs, also in a batch:
// there are no "create" spans, because a batch of thousands would have thousands of them. It
// travels in the job's Headers, together with baggage, unless the headers would exceed
// queue.MaxHeaders. A job whose headers already have a creation context keeps it, and the enqueue
// span links to it.
//
// A process span is a child of the creation context, so that the trace of a request contains the
// runs of its jobs; Options.NewTraces changes that. It also links to the creation context, and to
// the span that the worker runs in, if there is one. The spans of claim, extend and settle are
// children of the caller's span, and link to the creation contexts of the first 128 jobs of their
// batch.
//
// The spans of claim and extend are made once the call has returned, so what a database driver
// traces is not within them. An idle worker makes none.
//
// All workers of a queue are one consumer group, so messaging.consumer.group.name is not set;
// messaging.client.id is the worker's name.
//
// # Metrics
//
//	messaging.client.operation.duration  s          each call of the queue, also one that returned
//	                                                no jobs
//	messaging.client.sent.messages       {message}  jobs that Enqueue wrote or failed to write, also
//	                                                in a transaction that rolls back; not duplicates
//	messaging.client.consumed.messages   {message}  jobs that Claim returned
//	messaging.process.duration           s          how long handlers ran
//	errand.job.latency                   s          from when a job was due until its handler
//	                                                started
//	errand.job.outcomes                  {job}      runs of handlers, by outcome
//	errand.lease.lost                    {job}      jobs that Extend or Settle found lost
//	errand.batch.size                    {job}      jobs in each call of the queue that had some
//	errand.queue.depth                   {job}      jobs by queue and status, once there is an
//	                                                Observe
//	errand.queue.oldest_due.age          s          how long the oldest due job has waited, likewise
//
// What the database knows of all workers, also of those without telemetry, once it is asked for:
//
//	errand.fleet.size                    {worker}   workers by state: live, draining or vanished;
//	                                                ObserveWorkers
//	errand.slot.limit                    {slot}     how many handlers the live workers of a queue
//	                                                may run at once, likewise
//	errand.slot.usage                    {slot}     how many they run, likewise
//	errand.queue.oldest_claim.age        s          the time since the last claim of the worker that
//	                                                has claimed least recently, likewise
//	errand.recent.outcomes               {job}      runs of the last five minutes by queue, kind and
//	                                                outcome; ObserveStats
//	errand.recent.process.duration       s          quantiles of how long they took, likewise
//	errand.recent.latency                s          quantiles of how long their jobs had waited,
//	                                                likewise
//
// Latency is this machine's clock minus the database's, so it is wrong by their difference; it is
// never below 0. The histograms of seconds have the convention's buckets, from 5 ms to 10 s, and
// more, down to 100 µs and up to 10 minutes. A worker that crashed reports no outcome; a job that
// is dead because of crashes shows in the depth.
//
// Their attributes are the operation, the queue, the kind, and the outcome or status; the messaging
// metrics also have error.type if something failed. There is a series for each combination that
// occurs: if queues are named after users, drop messaging.destination.name with a view.
//
// dashboard.json, beside the code, is a Grafana dashboard of these metrics for Prometheus. It uses
// the names that the exporter's UnderscoreEscapingWithSuffixes gives them.
package telemetry
