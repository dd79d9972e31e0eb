package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Worker claims jobs, runs them and settles them. It is a struct literal with
// useful zeros; only Backend and Handler are required.
type Worker struct {
	// Backend is where the jobs are. What it can do besides, such as waking the
	// worker, is found with [As].
	Backend Consumer
	// Handler runs the jobs. If it is a [Mux], or wraps one with a [Chain] or a
	// method Unwrap() Handler, only the Mux's kinds are claimed.
	Handler Handler
	// Queues to serve, in priority order: the first is emptied before a job of
	// the second is claimed. Empty means [DefaultQueue].
	Queues []string
	// Concurrency is how many jobs run at once; 0 means 10.
	Concurrency int
	// Lease is how long a claim lasts without being extended, which happens every
	// third of it (and at least every three minutes): a job of a worker that
	// crashed runs again after one to two leases. 0 means 30 s.
	Lease time.Duration
	// Poll is how often to look for jobs when nothing else says that there are
	// some. 0 means 5 s where the backend wakes the worker ([Waiter]), and 1 s
	// elsewhere; more than 30 s means that.
	Poll time.Duration
	// Prefetch is how far ahead to claim while there is a backlog: never more jobs
	// than are expected to start within it, and at most 2,000. It makes short jobs
	// fast, and leaves jobs to other workers where handlers are slow. The worker sees
	// a backlog where its last claim brought all that it asked for. 0 means 100 ms;
	// below 0 nothing is claimed ahead.
	Prefetch time.Duration
	// Timeout ends a handler's context, unless its [Kind] has one of its own. It
	// covers the middleware, too. 0 means none.
	Timeout time.Duration
	// Grace is how long handlers may go on once Run's context has ended; 0 means
	// 20 s. After it their contexts end with [ErrShutdown], and Run returns within
	// eight seconds. So with the default it takes 28 s at most, of the 30 s after
	// which Kubernetes kills a process.
	Grace time.Duration
	// Halt, if not nil, ends Grace at once when it is closed: the second Ctrl-C.
	Halt <-chan struct{}
	// Name is the worker's, shown as the holder of its jobs. It must be unique among the workers that
	// run: what is claimed in its name and that it does not know of is given back after a claim
	// whose answer was lost. "" means one made of host, process and a random part.
	Name string
	// Logger gets one record a failure; nil means [slog.Default]. Payloads are
	// never logged.
	Logger *slog.Logger
}

const (
	defaultConcurrency = 10
	defaultLease       = 30 * time.Second
	defaultPrefetch    = 100 * time.Millisecond
	defaultGrace       = 20 * time.Second

	// shortestLease is the shortest that can be extended in good time.
	shortestLease = 100 * time.Millisecond
	// stuckAfter is how long after its context has ended a handler is taken to
	// ignore it.
	stuckAfter = 5 * time.Second
)

// Run claims and runs jobs until ctx ends, and then stops in good order: it
// gives back what has not been started, lets handlers finish for Grace, cancels
// those that are left (with the cause [ErrShutdown]) and gives their jobs back
// without costing an attempt, settles all, and returns nil. It blocks, owns every
// goroutine it starts, and may be called again, also concurrently.
//
// Run returns at most eight seconds after Grace is over or Halt is closed, if the
// Backend returns from its calls when their contexts end. Grace begins when ctx
// ends, even while a claim is under way; what that claim brings is given back.
//
// While the database cannot be reached Run keeps trying, and keeps what has
// finished until it can be settled. It returns an error at once for a bad field
// or a pool that is too small ([*InvalidError], see [Pooled]) and for a backend that is not set up ([*SetupError], until a claim has
// succeeded once), and after ctx has ended if a handler still ran or an outcome could
// not be settled, or the last claim did not return; then those jobs run again when their
// leases have run out.
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
		w.Queues = []string{DefaultQueue}
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
	case w.Backend == nil:
		return invalid("Worker.Backend", "nil")
	case w.Handler == nil:
		return invalid("Worker.Handler", "nil")
	case w.Concurrency < 1:
		return invalid("Worker.Concurrency", "%d: at least 1, or 0 for %d", w.Concurrency, defaultConcurrency)
	case w.Lease < shortestLease:
		return invalid("Worker.Lease", "%v: at least %v, or 0 for %v", w.Lease, shortestLease, defaultLease)
	case w.Poll != 0 && w.Poll < time.Millisecond:
		return invalid("Worker.Poll", "%v: at least 1ms, or 0 for %v", w.Poll, defaultPoll)
	case w.Timeout < 0:
		return invalid("Worker.Timeout", "%v: at least 0", w.Timeout)
	case w.Grace < 0:
		return invalid("Worker.Grace", "%v: at least 0", w.Grace)
	}
	return w.request(nil, 1).Check()
}

func (w Worker) request(kinds []string, limit int) ClaimRequest {
	return ClaimRequest{Queues: w.Queues, Kinds: kinds, Limit: limit, Lease: w.Lease, Worker: w.Name}
}

// uniqueName is a name that no other worker has, in which a person recognises
// the process.
func uniqueName() string {
	host, _ := os.Hostname()
	clean := []byte(host)
	for i, c := range clean {
		if c <= 0x20 || c > 0x7e {
			clean[i] = '-'
		}
	}
	return fmt.Sprintf("%.100s:%d:%s", clean, os.Getpid(), rand.Text()[:8])
}

// run is one call of Worker.Run: its state, and the goroutines that share it.
//
//	claiming ── startJobs ──> slots (handlers) ── finish ──> settling
//	                │                          │
//	                └────── held jobs ─────────┘ <── leases: extending, guarding
type run struct {
	Worker
	kinds    []string                 // what to claim; nil for every kind
	timeouts map[string]time.Duration // of the kinds that have one of their own
	serving  context.Context          // Run's: when it ends, nothing more is claimed or started
	quit     context.CancelCauseFunc  // ends serving because of an error, which Run returns
	handlers context.Context          // what handlers' contexts derive from: Run's values, and no end

	room chan struct{} // signals claiming: a slot got free, or outcomes were settled
	work chan *heldJob // claimed jobs on their way to a slot
	wake chan struct{} // signals claiming: the backend says that there may be jobs
	soon chan struct{} // signals claiming: dueAgain has become earlier

	woken atomic.Bool // the backend wakes the worker
	eased int         // how often claiming has halved what it asks for

	mu       sync.Mutex
	held     heldJobs             // claimed and not yet settled
	slots    int                  // goroutines that run handlers, busy or not
	pace     pace                 // how long handlers take
	backlog  bool                 // the last claim came back full: more jobs are due
	sizes    sizes                // how long jobs are
	claiming bool                 // the claim loop runs
	idle     chan struct{}        // closed when stopping and neither a handler nor the claim loop runs; nil before
	outage   time.Time            // when the database could last not be reached
	unknown  map[unknownKind]bool // kinds of which a Mux has given jobs back
	dueAgain time.Time            // when the first of the jobs that were given back is due; zero if none is

	slotsDone sync.WaitGroup // the slots
	settling  sync.WaitGroup // the settle loop, and what settleAlone is left with
	settle    chan struct{}  // signals settling: there are outcomes
	last      chan struct{}  // closed when the last job is finished
}

func newRun(ctx context.Context, quit context.CancelCauseFunc, w Worker) *run {
	r := &run{
		Worker:   w,
		serving:  ctx,
		quit:     quit,
		handlers: context.WithoutCancel(ctx),
		room:     make(chan struct{}, 1),
		work:     make(chan *heldJob, maxPrefetch+w.Concurrency),
		wake:     make(chan struct{}, 1),
		soon:     make(chan struct{}, 1),
		settle:   make(chan struct{}, 1),
		last:     make(chan struct{}),
		held:     heldJobs{jobs: make(map[*Job]*heldJob)},
		unknown:  make(map[unknownKind]bool),
	}
	if mux, ok := As[*Mux](w.Handler); ok {
		r.kinds, r.timeouts = mux.Kinds(), mux.timeouts()
	}
	return r
}

// run starts what a worker consists of, and stops it in the reverse order of
// what depends on it: claiming, handlers, settling, leases.
func (r *run) run(ctx context.Context) error {
	if r.kinds != nil && len(r.kinds) == 0 {
		return invalid("Worker.Handler", "a Mux without a handler")
	}
	release, err := r.reserve()
	if err != nil {
		return err
	}
	defer release()
	var upkeep, leases sync.WaitGroup
	flushing, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	holding, letGo := context.WithCancel(context.WithoutCancel(ctx))
	defer letGo()
	listening, deafen := context.WithCancel(context.WithoutCancel(ctx))
	defer deafen()

	leases.Go(func() { r.extendLeases(holding) })
	leases.Go(func() { r.guardLeases(holding) })
	r.settling.Go(func() { r.settleFinished(flushing) })
	upkeep.Go(func() { r.listen(listening) })
	upkeep.Go(func() { r.reclaim(ctx) })
	upkeep.Go(func() { r.prune(ctx) })

	endClaim := r.startClaiming(ctx)
	defer endClaim()

	<-ctx.Done()
	idle := r.awaitGrace()
	defer time.AfterFunc(stopTimeout, abandon).Stop()
	endClaim()
	stuck := r.endHandlers(idle)
	deafen() // not earlier: the claim loop puts the worker to sleep
	close(r.last)
	r.settling.Wait()
	letGo()
	leases.Wait()
	upkeep.Wait()
	return r.answer(stuck)
}

// signal makes a receive from c succeed, now or the next time.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits for d or the end of ctx, and says which: true after d.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
