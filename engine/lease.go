package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
)

const (
	// maxHeartbeat is the longest time between two heartbeats. The guide's statement for stale jobs
	// reclaims jobs whose locked_at is ten minutes old.
	maxHeartbeat = 3 * time.Minute
	// maxExtend is the most jobs of one Extend.
	maxExtend = 5000
)

// leases keeps the leases of the held jobs, and cancels the handlers of jobs that are lost or
// cancelled.
type leases struct {
	*shared
	held   *holding
	hinted chan struct{} // signals the hint loop

	mu    sync.Mutex
	hints hints // jobs that the backend says may be cancelled
}

func newLeases(s *shared, held *holding) *leases {
	return &leases{shared: s, held: held, hinted: make(chan struct{}, 1)}
}

// extendLoop extends the leases of all held jobs at each heartbeat, until ctx ends. After a failure
// it retries sooner.
func (l *leases) extendLoop(ctx context.Context) {
	log := l.watchCalls("extend")
	heartbeat := l.heartbeat()
	pause := heartbeat
	for upkeep.Sleep(ctx, pause) {
		pause = heartbeat
		held := l.held.toExtend()
		if len(held) == 0 {
			continue // not a sign that the database works: report nothing
		}
		begun := time.Now()
		err := l.extendAll(ctx, held)
		if ctx.Err() != nil {
			return
		}
		pause -= time.Since(begun)
		if again := log.Report(err); err != nil {
			l.outage.begin()
			pause = min(again, heartbeat/4)
		}
	}
}

// extendAll extends the leases of held jobs, in batches. It stops at the first error that concerns
// a whole batch.
func (l *leases) extendAll(ctx context.Context, held []*heldJob) (err error) {
	for batch := range slices.Chunk(held, maxExtend) {
		if failed := l.extend(ctx, batch); failed != nil {
			err = failed
			if !upkeep.IsPartial(failed) {
				break
			}
		}
	}
	return err
}

// extend extends the leases of a batch, and cancels the handlers of jobs that are lost or
// cancelled.
func (l *leases) extend(ctx context.Context, batch []*heldJob) error {
	lost, asked, leased, err := l.callExtend(ctx, l.held.jobsOf(batch))
	if err != nil && !upkeep.IsPartial(err) {
		return err
	}
	unstarted, cancelled := l.held.extended(withoutFailed(batch, err), lost, asked, leased)
	l.logLost(unstarted)
	for _, job := range cancelled {
		l.Logger.Info(msgCancelled, jobAttrs(job)...)
	}
	return err
}

func setOf(jobs []*queue.Job) map[*queue.Job]bool {
	set := make(map[*queue.Job]bool, len(jobs))
	for _, job := range jobs {
		set[job] = true
	}
	return set
}

// callExtend calls Extend. The leases of the jobs that are not lost begin at leased.
func (l *leases) callExtend(ctx context.Context, jobs []*queue.Job) (lost, asked []*queue.Job, leased time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.Lease/3)
	defer cancel()
	leased = time.Now()
	lost, asked, err = l.Backend.Extend(ctx, l.Lease, jobs...)
	return lost, asked, leased, err
}

// extendLate extends the leases of jobs whose claim took longer than a heartbeat. The heartbeat
// that has passed did not include these jobs, and at the next one their leases may be too short. It
// returns the jobs that are not lost, and when their leases began. If Extend fails, the next
// heartbeat fails as well and reports the error.
func (l *leases) extendLate(ctx context.Context, jobs []*queue.Job, claimed time.Time) (left []*queue.Job, leased time.Time) {
	now := time.Now()
	if len(jobs) == 0 || now.Sub(claimed) <= l.heartbeat() || l.endsSoon(claimed.Add(l.Lease), now) || l.serving.Err() != nil {
		return jobs, claimed
	}
	lost, _, leased, err := l.callExtend(ctx, jobs) // the next heartbeat says again which to cancel
	if err != nil {
		return jobs, claimed
	}
	l.logLost(lost)
	return slices.DeleteFunc(jobs, func(job *queue.Job) bool { return slices.Contains(lost, job) }), leased
}

// logLost logs and observes jobs that were lost before they were started.
func (l *leases) logLost(jobs []*queue.Job) {
	for _, job := range jobs {
		logLost(l.Logger, job)
		l.observe(lostEvent(job, 0))
	}
}

// guardLoop checks all held jobs at short intervals, until ctx ends. It also logs how many failures
// had no record of their own.
func (l *leases) guardLoop(ctx context.Context) {
	for upkeep.Sleep(ctx, l.guardInterval()) {
		now := time.Now()
		l.logFindings(l.held.check(now))
		l.failures.summarize(now)
	}
}

// heartbeat returns the time between two heartbeats.
func (s *shared) heartbeat() time.Duration { return min(s.Lease/3, maxHeartbeat) }
