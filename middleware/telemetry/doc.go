// Package telemetry gives errand OpenTelemetry traces and metrics.
//
//	tel, err := telemetry.New(telemetry.Options{}) // the global providers and propagator
//	q := tel.Queue(pg)                             // spans and metrics of the queue's operations
//	h := queue.Chain(mux, tel.Handler)             // and of the handlers
//	err = queue.Worker{Backend: q, Handler: h}.Run(ctx)
//
// It follows the semantic conventions for messaging of version 1.43.0, whose status is
// "development": names may change with them. Attributes of errand's own begin with
// errand. Payloads, headers and keys are in no attribute; the texts of errors are, as the
// description of a failed span's status.
//
// # Spans
//
// Span names are the operation and the queue, or the operation alone where a batch is of
// several queues. The operations have errand's names; messaging.operation.type has the
// convention's.
//
//	enqueue  PRODUCER  send     each Enqueue
//	claim    CLIENT    receive  each Claim that returned jobs or failed
//	process  CONSUMER  process  each run of a handler
//	settle   CLIENT    settle   each Settle
//	extend   CLIENT             each Extend that lost jobs or failed
//
// The context of the enqueue span is each of its jobs' creation context, also in a batch:
// there are no "create" spans, of which a batch of thousands would have thousands. It
// travels in the job's Headers. A job whose headers bring a creation context keeps that,
// and the enqueue span links to it. Baggage travels with it, unless the headers would
// exceed queue.MaxHeaders.
//
// A process span is a child of the creation context, so that the trace of a request holds
// what came of it; unless Options say NewTraces. It links to it as well, and to the span
// that the worker runs in, if there is one. The spans of claim, extend and settle belong to
// whoever called, and link to the creation contexts of the first 128 jobs of their batch.
//
// The spans of claim and extend are made once the call has returned, so what a database
// driver traces is not within them. An idle worker makes none.
//
// All workers of a queue are one consumer group, so messaging.consumer.group.name is not
// set; messaging.client.id is the worker's name.
//
// # Metrics
//
//	messaging.client.operation.duration  s          each call of the queue, also one that returned no jobs
//	messaging.client.sent.messages       {message}  jobs that Enqueue wrote or failed to write, also in a transaction that rolls back; not duplicates
//	messaging.client.consumed.messages   {message}  jobs that Claim returned
//	messaging.process.duration           s          how long handlers ran
//	errand.job.latency                   s          from when a job was due until its handler started
//	errand.job.outcomes                  {job}      runs of handlers, by what came of them
//	errand.lease.lost                    {job}      jobs that Extend or Settle found lost
//	errand.batch.size                    {job}      jobs in each call of the queue that had some
//	errand.queue.depth                   {job}      jobs by queue and status, once there is an Observe
//	errand.queue.oldest_due.age          s          how long the oldest due job has waited, likewise
//
// Latency is this machine's clock minus the database's, and as wrong as they differ; it is
// never below 0. The histograms of seconds have the convention's buckets, from 5 ms to
// 10 s, and more, down to 100 µs and up to 10 minutes. A worker that crashed has told of
// no outcome: a job that is dead for that shows in the depth.
//
// Their attributes are the operation, the queue, the kind, the outcome or status, and on
// the messaging metrics, only where something failed, error.type. There is a series for
// each combination that occurs: where queues are named after users, drop
// messaging.destination.name with a view.
//
// dashboard.json, beside the code, is a Grafana dashboard of them for Prometheus, by the
// names that the exporter's UnderscoreEscapingWithSuffixes gives them.
package telemetry
