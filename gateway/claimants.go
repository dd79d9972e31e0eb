package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Claimants: workers of other languages.
//
// Problem: they claim and settle, and report neither themselves nor what their runs came to. Nobody
// sees then that they work, nor that their jobs die. No client sends statistics.
// Rule: the gateway keeps what it has given to each claimant. It reports the claimant each
// driver.ReportInterval, and logs and counts its outcomes as a Worker does. A worker that reports
// itself, to this gateway or another, also logs its outcomes, so the gateway only counts them: the
// record of such a worker names its process, which that of a claimant does not.
// Ends: the gateway forgets a claimant that sends nothing for its lease, and at least for
// driver.VanishedAfter. It removes the record if the claimant held no jobs; else that shows a
// worker that has vanished.
// Bounds: maxClaimants; of jobs that a different gateway has given away, only deaths count, and
// only if their worker claims here, too.
// Shown by: TestClaimants, TestClaimantsDeaths, TestClaimantReportsItself.

const (
	// maxClaimants is how many claimants a gateway keeps. It leaves further ones alone.
	maxClaimants = 10_000
	// claimantGrace is how long after its first claim a claimant is reported. A worker that reports
	// itself has done so by then.
	claimantGrace = 3 * time.Second
)

// claimants are the workers that have claimed through the gateway.
type claimants struct {
	mu   sync.Mutex
	all  map[string]*claimant // by name
	sent time.Time            // when they were last reported
}

// claimant is a worker that has claimed through the gateway.
type claimant struct {
	driver.WorkerInfo
	first, claimed, heard time.Time       // its first and last claim, and its last request
	isKnown               bool            // it was reported by the gateway
	reportsItself         bool            // so the gateway leaves it alone
	held                  map[held]*given // what it has claimed and not yet settled
}

type held struct{ id, fence int64 }

// given is a job that a claimant holds, without its payload.
type given struct {
	queue.Job
	at, ends time.Time // when the gateway gave it away, and when its lease ends
}

// noteClaim notes that a worker has claimed.
func (c *claimants) noteClaim(req queue.ClaimRequest, jobs []*queue.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	w := c.all[req.Worker]
	if w == nil {
		if len(c.all) >= maxClaimants {
			return
		}
		if c.all == nil {
			c.all = make(map[string]*claimant)
		}
		w = &claimant{first: now, held: make(map[held]*given)}
		c.all[req.Worker] = w
	}
	w.claimed, w.heard = now, now
	w.Name, w.Queues, w.Kinds, w.Lease = req.Worker, req.Queues, req.Kinds, req.Lease
	for _, j := range jobs {
		g := &given{Job: *j, at: now, ends: now.Add(req.Lease)}
		g.Payload, g.Headers = nil, nil
		w.held[held{j.ID, j.Fence}] = g
	}
	w.Concurrency = max(w.Concurrency, len(w.held), 1)
}

// noteExtend notes that workers have extended the leases of jobs, and have lost others.
func (c *claimants) noteExtend(jobs, lost []*queue.Job, lease time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, j := range jobs {
		w := c.all[j.Worker]
		if w == nil {
			continue
		}
		w.heard = now
		if g := w.held[held{j.ID, j.Fence}]; g != nil {
			g.ends = now.Add(lease)
		}
	}
	for _, j := range lost {
		if w := c.all[j.Worker]; w != nil {
			delete(w.held, held{j.ID, j.Fence})
		}
	}
}

// noteReport notes that a worker reports itself.
func (c *claimants) noteReport(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.all[name]; w != nil {
		w.reportsItself = true
	}
}

// settled takes the job of an outcome from its claimant. isKnown is false if the worker has never
// claimed here. g is nil if a different gateway has given it the job.
func (c *claimants) settled(job *queue.Job) (g *given, isKnown, logsItself bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.all[job.Worker]
	if w == nil {
		return nil, false, false
	}
	w.heard = time.Now()
	key := held{job.ID, job.Fence}
	g = w.held[key]
	delete(w.held, key)
	return g, true, w.reportsItself
}

// isDue reports whether it is time to report the claimants.
func (c *claimants) isDue(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.sent) >= driver.ReportInterval {
		return true
	}
	for _, w := range c.all {
		if !w.isKnown && !w.reportsItself && now.Sub(w.first) >= claimantGrace {
			return true
		}
	}
	return false
}

// take returns the reports of the claimants, and forgets those that are silent. fleet are the
// records of all workers.
func (c *claimants) take(now time.Time, fleet []driver.WorkerRecord) (reports []driver.WorkerReport) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = now
	for _, r := range fleet {
		if w := c.all[r.Name]; w != nil && r.PID != 0 {
			w.reportsItself = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		w := c.all[name]
		maps.DeleteFunc(w.held, func(_ held, g *given) bool { return now.After(g.ends) })
		isSilent := now.Sub(w.heard) > max(driver.VanishedAfter, w.Lease)
		if isSilent {
			delete(c.all, name)
		}
		switch {
		case w.reportsItself || now.Sub(w.first) < claimantGrace:
		case !isSilent:
			w.isKnown, w.Busy = true, len(w.held)
			reports = append(reports, driver.WorkerReport{WorkerInfo: w.WorkerInfo, Age: max(now.Sub(w.first), 1), ClaimAge: max(now.Sub(w.claimed), 1)})
		case w.isKnown && w.Busy == 0:
			reports = append(reports, driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: name}, Stopped: true})
		}
	}
	return reports
}

// keepReported reports the claimants, and what their runs came to, until the gateway is closed.
func (h *Handler) keepReported() {
	fleet, _ := driver.As[driver.Fleet](h.queue)
	counts := fleet
	if _, ok := driver.As[driver.Statistician](h.queue); !ok {
		counts = nil
	}
	reporting := h.watchCalls("reporting claimants")
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	defer h.ledger.End()
	for {
		select {
		case <-h.ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), reportPatience)
			defer cancel()
			h.report(reporting, h.ledger.Report(ctx, counts))
			return
		case now := <-ticker.C:
			if h.claimants.isDue(now) {
				h.report(reporting, h.reportClaimants(fleet, counts, now))
			}
		}
	}
}

// reportClaimants reports the claimants once, and what their runs came to.
func (h *Handler) reportClaimants(fleet, counts driver.Fleet, now time.Time) error {
	ctx, cancel := h.upkeepContext()
	defer cancel()
	var all []driver.WorkerRecord
	var err error
	if fleet != nil && !h.claimants.isEmpty() {
		if all, err = fleet.Workers(ctx); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(h.claimants.take(now, all), maxReports) {
		if fleet == nil {
			break
		}
		if err := fleet.ReportWorkers(ctx, part...); err != nil {
			return err
		}
	}
	return h.ledger.Report(ctx, counts)
}

// isEmpty reports whether no worker has claimed lately.
func (c *claimants) isEmpty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all) == 0
}

// noteSettled logs and counts the outcomes that the backend has recorded: all but those of the jobs
// that are in left.
func (h *Handler) noteSettled(outcomes []queue.Outcome, left []wire.Held) {
	for _, o := range outcomes {
		if slices.ContainsFunc(left, func(l wire.Held) bool { return l.ID == o.Job.ID && l.Fence == o.Job.Fence }) {
			continue
		}
		g, isKnown, logsItself := h.claimants.settled(o.Job)
		if g == nil && isKnown {
			g = h.find(o)
		}
		if g == nil {
			continue
		}
		o.Job = &g.Job
		due := g.ScheduledAt
		if due.Before(g.CreatedAt) {
			due = g.CreatedAt
		}
		h.ledger.Ended(o, time.Since(g.at), max(g.at.Sub(due), 0), !logsItself)
	}
}

// find returns the job of an outcome that a different gateway has given to the claimant, if it is
// dead now.
func (h *Handler) find(o queue.Outcome) *given {
	inspector, ok := driver.As[driver.Inspector](h.queue)
	if !ok || o.Action != queue.Dead && o.Action != queue.Retry {
		return nil
	}
	ctx, cancel := h.callContext()
	defer cancel()
	r, ok, err := inspector.Job(ctx, o.Job.ID)
	if err != nil || !ok || r.Status != queue.StatusDead && r.Status != queue.StatusHeld {
		return nil
	}
	found := &given{Job: r.Job, at: time.Now()}
	found.Worker = o.Job.Worker
	return found
}
