package engine

import (
	"context"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// run is one call of Worker.Run. It makes the parts, starts their loops, and stops them in order. A
// part knows the parts that its arrow points to:
//
//	claims ──> slots ──> held <── leases, settling
//	   └─────> leases
//	slots, settling, claims, upkeep ──> reporting, wakeups
//	reporting ──> held, wakeups
//	upkeep ──> held
//
// Each part that goroutines share has one lock. No method calls the backend, a handler or the log
// while it has one. leases locks itself before held, to look for hinted jobs; all other methods
// have one lock at a time. Parts tell each other of news by a channel of length one, see signal.
type run struct {
	*shared
	held      *holding     // the jobs that the worker holds
	wakeups   *wakeups     // how the claim loop sleeps
	reporting *reporting   // what runs come to, and reports of the worker
	progress  *progressing // the progress that handlers set
	leases    *leases
	settling  *settling
	slots     *slots // the goroutines that run handlers
	claims    *claims
	upkeep    *upkeeping // what is not about held jobs
}

func newRun(ctx context.Context, quit context.CancelCauseFunc, w Worker) *run {
	r := &run{shared: newShared(ctx, quit, w)}
	r.held = newHolding(r.shared)
	r.wakeups = newWakeups(r.shared)
	r.reporting = newReporting(r.shared, r.held, r.wakeups)
	r.progress = newProgressing(r.shared)
	r.leases = newLeases(r.shared, r.held)
	r.settling = newSettling(r.shared, r.held, r.wakeups, r.reporting)
	r.slots = &slots{shared: r.shared, held: r.held, wakeups: r.wakeups, reporting: r.reporting, progress: r.progress}
	r.claims = newClaims(r.shared, r.held, r.wakeups, r.reporting, r.leases, r.slots)
	r.upkeep = newUpkeep(r.shared, r.held, r.wakeups, r.reporting)
	return r
}

// run starts the loops of a worker, and stops them in this order: claiming, handlers, settling,
// leases. Leases are last because the worker holds jobs until they are settled.
func (r *run) run(ctx context.Context) error {
	if r.kinds != nil && len(r.kinds) == 0 {
		return invalid("Worker.Handler", "a Mux without a handler")
	}
	conns, err := queue.CheckHandler(r.Handler)
	if err != nil {
		return err
	}
	release, err := r.reserve(conns)
	if err != nil {
		return err
	}
	defer release()
	var loops, leases sync.WaitGroup
	settling, abortSettling := context.WithCancel(context.WithoutCancel(ctx))
	defer abortSettling()
	announcing, abortAnnouncing := context.WithCancel(context.WithoutCancel(ctx))
	defer abortAnnouncing()
	extending, endExtending := context.WithCancel(context.WithoutCancel(ctx))
	defer endExtending()
	listening, endListening := context.WithCancel(context.WithoutCancel(ctx))
	defer endListening()
	telling, endTelling := context.WithCancel(context.WithoutCancel(ctx))
	defer endTelling()
	var endOnDead context.CancelCauseFunc
	r.onDead, endOnDead = context.WithCancelCause(r.handlers)
	defer endOnDead(nil)

	r.startLeases(&leases, extending)
	r.settling.done.Go(func() { r.settling.settleLoop(settling) })
	loops.Go(func() { r.wakeups.listen(listening, r.leases.noteHint) })
	loops.Go(func() { r.warnUnserved(ctx) })
	loops.Go(func() { r.upkeep.announceLoop(announcing) })
	r.startUpkeep(ctx, telling, &loops)
	endClaiming := r.claims.start(ctx)
	defer endClaiming()

	<-ctx.Done()
	idle := r.awaitGrace()
	defer time.AfterFunc(stopTimeout-stoppedTimeout, abortSettling).Stop() // the last report comes after it
	defer time.AfterFunc(stopTimeout, abortAnnouncing).Stop()
	defer time.AfterFunc(stopTellingTimeout, endTelling).Stop()
	defer time.AfterFunc(stopOnDeadTimeout, func() { endOnDead(queue.ErrShutdown) }).Stop()
	endClaiming()
	stuck := r.cancelHandlers(idle)
	endListening() // not earlier: the claim loop calls Sleep
	close(r.settling.last)
	r.settling.done.Wait()
	endExtending()
	leases.Wait()
	loops.Wait()
	r.failures.end()
	r.logReleased()
	return r.stopError(stuck)
}

// startLeases starts the loops that run until all jobs are settled, which is when extending ends.
func (r *run) startLeases(leases *sync.WaitGroup, extending context.Context) {
	leases.Go(func() { r.leases.extendLoop(extending) })
	leases.Go(func() { r.leases.guardLoop(extending) })
	leases.Go(func() { r.leases.hintLoop(extending) })
	leases.Go(func() { r.progress.progressLoop(extending) })
	leases.Go(func() { r.reporting.reportLoop(extending) })
}

// startUpkeep starts the loops that end with ctx, when the worker begins to stop. Calls that tell
// of dead jobs may last until telling ends. It reads which kinds are paused before it returns.
func (r *run) startUpkeep(ctx, telling context.Context, loops *sync.WaitGroup) {
	loops.Go(func() {
		defer close(r.upkeep.deaths)
		var asking sync.WaitGroup
		asking.Go(func() { r.upkeep.deathsLoop(ctx, telling) })
		r.upkeep.reclaimLoop(ctx, telling)
		asking.Wait()
	})
	loops.Go(func() { r.upkeep.pruneLoop(ctx) })
	loops.Go(func() { r.upkeep.tickLoop(ctx) })
	loops.Go(func() { r.upkeep.upkeepLoop(ctx) })
	if pauser, ok := driver.As[driver.Pauser](r.Backend); ok && r.kinds != nil {
		_ = upkeep.ReadPauses(ctx, pauser, r.upkeep.setPauses) // if it fails, the loop reads them and reports the error
		loops.Go(func() {
			upkeep.PauseLoop(ctx, pauser, r.wakeups.waker, r.wakeups.pauses, r.watchCalls("read paused kinds"), r.upkeep.setPauses)
		})
	}
}
