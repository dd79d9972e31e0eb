package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/errandhq/errand/internal/check"
	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
)

// Worker claims jobs, runs them and settles them. It is a struct literal: only Backend and Handler
// are required, and the zero value of each other field means its default. A Worker is a plain
// value; Run does not change it.
type Worker struct {
	// Backend holds the jobs. The worker finds its capabilities, such as [driver.Waiter], with
	// [driver.As].
	Backend queue.Consumer
	// Handler runs the jobs, Concurrency of them at once. The worker looks for a [queue.Mux] in it:
	// the Handler itself, or one within a [queue.Chain] or behind a method Unwrap() Handler. If there
	// is one, the worker claims only the Mux's kinds.
	Handler queue.Handler
	// Queues are the queues to serve, in priority order: the worker claims jobs of the second queue
	// only while the first has none that are due. Empty means [queue.DefaultQueue]. Run logs a warning
	// for each queue that a [queue.Kind] of its Mux names, and that no running worker with the same
	// Mux serves: once a Mux, half a minute after the start. It cannot know of kinds without a Queue:
	// their jobs are in DefaultQueue, unless the enqueuer names another.
	Queues []string
	// Weights let queues take turns to be claimed from first: of as many claims as the weights add
	// up to, each queue comes first in as many as it has weight. The other queues follow in that
	// claim, so an empty queue keeps nothing idle, and they share out its turns. A queue of Queues
	// that has no weight keeps its place. A weight is 1 to 10,000, of a queue in Queues. Turns
	// share out claims, not the time that handlers take. nil means that all queues keep their
	// places.
	Weights map[string]int
	// Slots bounds how many of the Concurrency handlers run jobs of a queue at once, so that a queue
	// of slow jobs leaves the other slots to the other queues. A queue without a number may use all
	// of them. The worker claims nothing ahead for a queue with a number. A number is 1 to
	// Concurrency, of a queue in Queues. It bounds this worker alone; a [queue.Rule] bounds all
	// workers. nil means that every queue may use all slots.
	Slots map[string]int
	// Concurrency is how many handlers run at once. 0 means 10; below 0, and above 100,000, is an
	// error.
	Concurrency int
	// Lease is how long a claim lasts without being extended. The worker extends it every third of
	// Lease, and at least every three minutes. If a worker crashes, its jobs run again after one to
	// two leases. 0 means 30 s; the shortest is 100 ms.
	Lease time.Duration
	// Poll is how often a worker without jobs claims although nothing has woken it. 0 means 5 s if the
	// backend is a [driver.Waiter], which wakes the worker, and 1 s if not. The shortest is 1 ms; more
	// than 30 s means 30 s.
	Poll time.Duration
	// Prefetch is how far ahead the worker claims while there is a backlog: as many jobs as it
	// expects to start within Prefetch, at most 2,000. It makes short jobs fast, and leaves jobs to
	// other workers if handlers are slow. There is a backlog if the last claim returned all the
	// jobs it asked for, or more jobs than Concurrency. If the worker crashes, the jobs that it has
	// claimed ahead have used an attempt, too. So jobs in their last attempt are released until
	// there is a slot for them. 0 means 100 ms; below 0 the worker claims nothing ahead. For jobs
	// with a [queue.Job.Group] it is a quarter of that.
	Prefetch time.Duration
	// Timeout is how long a handler may run, with its middleware, before its context ends. The
	// Timeout of the job's [queue.Kind] replaces it. 0 means no limit; below 0 is an error.
	Timeout time.Duration
	// Grace is how long handlers may run on after Run's context has ended. Then their contexts end
	// with [queue.ErrShutdown], and Run returns within eight seconds. 0 means 20 s, so that Run takes
	// at most 28 s of the 30 s after which Kubernetes kills a process. Below 0 is an error.
	Grace time.Duration
	// Halt ends Grace at once when it is closed, for example at the second Ctrl-C. nil means never.
	Halt <-chan struct{}
	// Name is the holder's name of the jobs that this worker claims: 1 to 200 printable ASCII
	// bytes. It must be unique among the workers that run. If the answer to a claim is lost, a
	// backend releases the jobs that it finds claimed under this name. "" means a new name made of
	// host, process and a random part.
	Name string
	// Logger gets a record for each failure, or a count of similar failures if there are more than
	// five in a second. nil means [slog.Default]. The package comment lists the keys. No record
	// contains a payload.
	Logger *slog.Logger
	// OnDead is called for each job that this worker makes dead: after its last failed attempt, if
	// its handler discards it, if its payload cannot be read, and if the worker reclaims it after a
	// crash in its last attempt. err is the cause, whose text is the job's LastError. After a crash
	// errors.Is(err, [queue.ErrLost]) is true. It is also called where a rule holds the job instead
	// ([queue.HoldDead]). nil means that nothing is called.
	//
	// After a run OnDead is called at least once: before the job is settled, in the run's slot,
	// while the worker settles other jobs. If the process crashes before the job is settled, the
	// job is reclaimed, and OnDead is called again. If the worker loses the job meanwhile, the job
	// may run again.
	//
	// A reclaimed job is dead already, and has neither Payload nor Headers; its Fence is 0. OnDead is
	// called by the worker that reclaims it, for ten such jobs at once. That may be any worker of
	// the database, also one of other queues and kinds: so give the same OnDead to every worker of
	// every program. One that has none only logs the death. The worker does not wait for the call.
	// There is none if this process, or its connection, breaks before it. So alert on the number of
	// dead jobs as well. Nor is there one while 10,000 jobs wait for theirs, or once the worker has
	// stopped: the log then says for how many jobs.
	//
	// OnDead may be called concurrently. ctx has the values of Run's context. It ends after ten
	// seconds, and two seconds after Grace at the latest. A job whose handler returns later than
	// that is released instead, and OnDead is called after another run. A worker that stops while
	// it reclaims waits for the answer until one second after Grace. An OnDead that ignores the end
	// of ctx is logged, and keeps its slot, like a handler, or its place among the ten; if it goes
	// on for eight seconds after Grace, Run returns an error. A panic is logged, and the job is
	// settled nevertheless. OnDead is not called for jobs that their handlers settle as dead.
	OnDead func(ctx context.Context, job *queue.Job, err error)
	// Observe is called for each [queue.Event] of this worker: for counters, live views and tests. A
	// run that ends is told of once the database has recorded its outcome, so at most once, and not if
	// the process crashes before. To act on a dead job, use OnDead, which is called at least once. nil
	// means that nothing is called, and costs nothing.
	//
	// Observe may be called concurrently. The events of a run come in their order, but a reclaimed
	// job may have started again before Observe learns of the crash. Observe must return at once:
	// handlers, settling and heartbeats wait for it. A panic is logged. Run returns after the last
	// call, unless a handler still runs then, of which its error tells.
	Observe func(queue.Event)
}

const (
	defaultConcurrency = 10
	defaultLease       = 30 * time.Second
	defaultPrefetch    = 100 * time.Millisecond
	defaultGrace       = 20 * time.Second

	// maxConcurrency is the highest Concurrency that Run accepts. Run allocates a place for each.
	maxConcurrency = 100_000

	// shortestLease is the shortest lease that a worker can extend in time.
	shortestLease = 100 * time.Millisecond
)

// Run claims and runs jobs until ctx ends. Then it stops in order: it releases the jobs that it has
// not started, lets handlers finish for Grace, cancels the handlers that still run with the cause
// [queue.ErrShutdown] and releases their jobs, settles all outcomes, and returns nil. A released
// job keeps its attempts. Run blocks, and owns every goroutine that it starts. It may be called
// again when it has returned. If Name is "", it may also be called concurrently, because each call
// makes a name of its own.
//
// Run returns at most eight seconds after Grace has ended or Halt is closed, provided that the
// Backend returns from its calls when their contexts end. Grace begins when ctx ends, even while a
// claim is under way; Run releases the jobs that the claim returns.
//
// While the database cannot be reached, Run keeps trying, and keeps outcomes until it can settle
// them. It returns an error
//
//   - at once for a bad field, or a pool that is too small ([*queue.InvalidError], see
//     [driver.Pooled]);
//   - for a backend that is not set up ([*queue.SetupError]), unless a claim has succeeded before;
//   - after ctx has ended, if a handler still ran, an outcome could not be settled, the last claim
//     did not return, or the backend has left work of its own undone ([driver.Upkeeper]). The job
//     of a handler that ignores its context is released all the same, three seconds after the end
//     of Grace, and may run elsewhere at once, while the handler still runs here: end the process.
//     Other jobs run again when their leases have expired.
func (w Worker) Run(ctx context.Context) error {
	w, err := w.withDefaults()
	if err != nil {
		return err
	}
	ctx, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	return newRun(ctx, quit, w).run(ctx)
}

func (w Worker) withDefaults() (Worker, error) {
	w.Concurrency = cmp.Or(w.Concurrency, defaultConcurrency)
	w.Lease = cmp.Or(w.Lease, defaultLease)
	w.Prefetch = max(cmp.Or(w.Prefetch, defaultPrefetch), 0)
	w.Grace = cmp.Or(w.Grace, defaultGrace)
	if len(w.Queues) == 0 {
		w.Queues = []string{queue.DefaultQueue}
	}
	if w.Name == "" {
		w.Name = uniqueName()
	}
	if w.Logger == nil {
		w.Logger = slog.Default()
	}
	return w, w.check()
}

func (w Worker) check() error {
	switch {
	case check.IsNil(w.Backend):
		return invalid("Worker.Backend", "nil")
	case w.Handler == nil:
		return invalid("Worker.Handler", "nil")
	case w.Concurrency < 1:
		return invalid("Worker.Concurrency", "%d: at least 1, or 0 for %d", w.Concurrency, defaultConcurrency)
	case w.Concurrency > maxConcurrency:
		return invalid("Worker.Concurrency", "%d: at most %d", w.Concurrency, maxConcurrency)
	case w.Lease < shortestLease:
		return invalid("Worker.Lease", "%v: at least %v, or 0 for %v", w.Lease, shortestLease, defaultLease)
	case w.Poll != 0 && w.Poll < time.Millisecond:
		return invalid("Worker.Poll", "%v: at least 1ms, or 0 for %v", w.Poll, upkeep.DefaultPoll)
	case w.Timeout < 0:
		return invalid("Worker.Timeout", "%v: at least 0", w.Timeout)
	case w.Grace < 0:
		return invalid("Worker.Grace", "%v: at least 0", w.Grace)
	}
	if err := w.request(nil, 1).Check(); err != nil {
		return err
	}
	if err := checkWeights(w.Queues, w.Weights); err != nil {
		return err
	}
	return checkSlots(w.Queues, w.Slots, w.Concurrency)
}

func (w Worker) request(kinds []string, limit int) queue.ClaimRequest {
	return queue.ClaimRequest{Queues: w.Queues, Kinds: kinds, Limit: limit, Lease: w.Lease, Worker: w.Name}
}

// uniqueName returns a name that no other worker has and that shows a person which process it is.
func uniqueName() string {
	host, pid := process()
	return fmt.Sprintf("%.100s:%d:%s", host, pid, rand.Text()[:8])
}

// process returns the names of this host and process. That of the host is printable ASCII.
func process() (host string, pid int) {
	host, _ = os.Hostname()
	clean := []byte(host)
	for i, c := range clean {
		if c <= 0x20 || c > 0x7e {
			clean[i] = '-'
		}
	}
	return string(clean), os.Getpid()
}

// invalid returns the error for a bad field.
func invalid(field, format string, args ...any) *queue.InvalidError {
	return &queue.InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
