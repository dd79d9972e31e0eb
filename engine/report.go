package engine

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/check"
	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Reporting the worker to a backend that is a [driver.Fleet].
//
//   - Problem: a person wants to know which workers are alive and what they do, and nothing may
//     become slower or fail by that.
//   - Rule: one goroutine sends one report in [driver.ReportInterval]. A report that fails is not
//     repeated before that. A worker that stops has its record removed.
//   - Bounds: a report takes reportTimeout at most, and holds one connection meanwhile. A worker
//     that stops within firstReport of its start or of its order to stop does not report that.
//   - Test: TestReports, TestReportsFail, TestReportHangs.

const (
	// firstReport is how long after its start, and after it was told to stop, a worker reports
	// itself, on average.
	firstReport = time.Second
	// reportTimeout bounds a report whose answer never arrives, and stoppedTimeout what a worker that
	// has stopped still reports.
	reportTimeout  = 3 * time.Second
	stoppedTimeout = time.Second
)

// reporting counts what runs come to, and reports the worker.
type reporting struct {
	*shared
	held    *holding
	wakeups *wakeups

	mu        sync.Mutex
	lastClaim lastClaim
	tallies   tallies         // what runs came to; empty if the backend does not keep it
	unknown   map[string]bool // kinds whose jobs a Mux has released
}

func newReporting(s *shared, held *holding, wakeups *wakeups) *reporting {
	r := &reporting{shared: s, held: held, wakeups: wakeups, unknown: make(map[string]bool)}
	if _, ok := driver.As[driver.Statistician](s.Backend); ok {
		r.tallies.all = make(map[tallyKey]*queue.Stats)
	}
	return r
}

// lastClaim is what the last claims of a worker came to.
type lastClaim struct {
	at  time.Time // when the last one that succeeded was made; zero if none has
	err error     // of the last one
}

// noteClaim notes what a claim came to.
func (r *reporting) noteClaim(at time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastClaim.err = err
	if err == nil {
		r.lastClaim.at = at
	}
}

// reportLoop reports the worker until ctx ends, and then removes its record, also if outcomes could
// not be settled. A report that is under way then goes on for stoppedTimeout: if it were cut off,
// its counts might be recorded, and would be reported again.
func (r *reporting) reportLoop(ctx context.Context) {
	fleet, ok := driver.As[driver.Fleet](r.Backend)
	if !ok {
		return
	}
	log := r.watchCalls("report of the worker")
	var draining time.Time
	hasReported := false
	told := r.serving.Done()
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stoppedTimeout, cut) })()
	timer := time.NewTimer(upkeep.Jitter(firstReport))
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-told:
			told, draining = nil, time.Now()
			timer.Reset(firstReport)
			continue
		case <-timer.C:
		}
		hasReported = true
		err := r.sendReport(calls, fleet, r.newReport(draining))
		if ctx.Err() == nil {
			log.Report(err)
		}
		timer.Reset(driver.ReportInterval)
	}
	r.reportStopped(calls, fleet, hasReported)
}

// reportStopped removes the worker's record, if there is one, and reports what its last runs came
// to.
func (r *reporting) reportStopped(ctx context.Context, fleet driver.Fleet, hasReported bool) {
	if !hasReported && !r.hasTallies() {
		return
	}
	stopped := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: r.Name}, Stopped: true}
	if err := r.sendReport(ctx, fleet, stopped); err != nil {
		r.Logger.Warn("errand: the last report of the worker failed, it will be shown as vanished", "error", err)
	}
}

// sendReport sends a report with what runs came to since the last one. If it fails, the next one
// has that, too.
func (r *reporting) sendReport(ctx context.Context, fleet driver.Fleet, report driver.WorkerReport) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	counted := r.takeTallies()
	report.Stats = statsOf(counted, r.steadyNow())
	err := fleet.ReportWorkers(ctx, report)
	if err != nil {
		r.putTalliesBack(counted)
	}
	return err
}

// newReport returns what there is to report of the worker. draining is when it was told to stop, or
// zero.
func (r *reporting) newReport(draining time.Time) driver.WorkerReport {
	host, pid := process()
	report := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{
		Name: r.Name, Host: host, PID: pid, Version: version(),
		Queues: slices.Clone(r.Queues), Kinds: slices.Clone(r.kinds), Concurrency: r.Concurrency,
		Lease: min(r.Lease, check.MaxDelay), Grace: min(r.Grace, check.MaxDelay), Listens: r.wakeups.waker.CanWake(), Poll: r.wakeups.waker.Poll(),
	}}
	report.Busy, report.Waiting = r.held.load()
	report.Slots = r.held.slotsNow()
	report.Refused, report.RefusedCount = r.held.refused()
	r.mu.Lock()
	defer r.mu.Unlock()
	report.ClaimError = reportText(r.lastClaim.err)
	report.Age, report.ClaimAge, report.DrainAge = ageOf(r.started), ageOf(r.lastClaim.at), ageOf(draining)
	return report
}

// version returns the version of errand that this program was built with: "(devel)" for a checkout,
// "" if it is not known.
var version = sync.OnceValue(func() string {
	const path = "github.com/errandhq/errand"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != path {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		return cmp.Or(m.Version, "(devel)")
	}
	return ""
})
