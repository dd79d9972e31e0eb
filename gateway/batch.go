package gateway

import (
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// Claims for many clients.
//
// Problem: with a claim for each client, 300 jobs a second for a thousand clients that wait are 600
// claims and more, of which each finds one job or none.
// Rule: a claim is for all clients of the group that wait with the same lease, under the name of
// one client's worker. Its jobs are shared out, and one more statement gives those of other workers
// to these ([driver.Reassigner]). So in the database each job has the name of the worker that runs
// it, and only that worker can extend and settle it. If there were fewer jobs than clients, the
// next claim waits for a moment, in which more jobs come.
// Ends: a backend that is no Reassigner has claims for one client each.
// Bounds: Options.MaxJobs and 16 MiB a claim; gatherTime between two claims while clients wait.
// Shown by: TestBusyClients, TestShares, TestReassignFails, TestReassignUnknown.

// gatherTime is how long after a claim that found fewer jobs than clients the next one begins,
// unless a client comes that cannot wait.
const gatherTime = 10 * time.Millisecond

// batch is the clients that one claim is for, and what was true when it began.
type batch struct {
	clients      []*client
	at           time.Time
	arrivals     int   // how many clients had joined
	wakes        int   // how often the group had been woken
	announcement int   // the one that was valid
	settles      int64 // how often clients had settled jobs
}

// next returns the clients to claim for: one, and those that want the same lease. If there is no
// client, the loop ends.
func (g *group) next() *batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.clients) == 0 {
		g.isRunning = false
		return nil
	}
	b := &batch{
		clients: []*client{g.first()}, at: time.Now(), arrivals: g.arrivals, wakes: g.wakes,
		announcement: g.lookout.announcement(), settles: g.h.settles.Load(),
	}
	if g.h.reassigner != nil {
		b.clients = g.alike(b.clients[0])
	}
	for _, c := range b.clients {
		c.isServed = true
	}
	return b
}

// first returns the first client, but passes over those that can wait and have no free slot: others
// may be idle. The caller holds g.mu.
func (g *group) first() *client {
	isUrgent := func(c *client) bool { return !c.canWait || c.freeSlots() > 0 }
	return g.clients[max(slices.IndexFunc(g.clients, isUrgent), 0)]
}

// alike returns the clients that one claim can be for, beginning with the first one. The caller
// holds g.mu.
func (g *group) alike(first *client) []*client {
	all, limit := []*client{first}, first.req.Limit
	for _, c := range g.clients {
		if c == first || c.req.Lease != first.req.Lease {
			continue
		}
		if limit += c.req.Limit; limit > g.h.options.MaxJobs {
			break
		}
		all = append(all, c)
	}
	return all
}

// endBatch notes that no claim is under way for the clients of a batch. Those that have left
// meanwhile get an empty answer. The caller holds g.mu.
func (g *group) endBatch(b *batch) {
	for _, c := range b.clients {
		c.isServed = false
	}
	g.answerIf(func(c *client) (claims, bool) { return claims{}, c.isLeaving })
}

// gather waits until gatherTime after since, or until there is a client that cannot wait.
func (g *group) gather(since time.Time) {
	timer := time.NewTimer(time.Until(since.Add(gatherTime)))
	defer timer.Stop()
	for !g.hasImpatient() {
		select {
		case <-g.signal:
		case <-timer.C:
			return
		case <-g.h.draining.Done():
			return
		}
	}
}

// freeSlots returns how many jobs the client can run at once.
func (c *client) freeSlots() int { return c.req.Limit - c.req.Ahead }

// hasFreeSlot reports whether one of the clients can run a job at once.
func (b *batch) hasFreeSlot() bool {
	r := b.request()
	return r.Limit > r.Ahead
}

// request returns the claim for all clients of the batch. Its worker is that of the first one with
// a free slot: if Reassign fails, this one gets jobs all the same.
func (b *batch) request() queue.ClaimRequest {
	all := b.clients[0].req
	if i := slices.IndexFunc(b.clients, func(c *client) bool { return c.freeSlots() > 0 }); i >= 0 {
		all.Worker = b.clients[i].req.Worker
	}
	for _, c := range b.clients[1:] {
		all.Limit += c.req.Limit
		all.Ahead += c.req.Ahead
		all.Bytes += c.req.Bytes
	}
	all.Bytes = min(all.Bytes, queue.ClaimRequest{}.MaxBytes())
	return all
}

// share gives each client jobs for its free slots, in the order in which the clients came, and then
// those that wait for a slot. rest are the jobs that do not fit in the bytes of any client.
func (b *batch) share(jobs []*queue.Job) (shares [][]*queue.Job, rest []*queue.Job) {
	shares = make([][]*queue.Job, len(b.clients))
	room := make([]int, len(b.clients))
	for _, most := range []func(*client) int{(*client).freeSlots, func(c *client) int { return c.req.Limit }} {
		for i, c := range b.clients {
			for len(jobs) > 0 && len(shares[i]) < most(c) && room[i] >= 0 {
				room[i] += sizeOf(jobs[0])
				if room[i] > c.req.Bytes && len(shares[i]) > 0 {
					room[i] = -1 // it takes no more
					break
				}
				shares[i] = append(shares[i], jobs[0])
				jobs = jobs[1:]
			}
		}
	}
	return shares, jobs
}

// sizeOf returns the length of a job's payload and headers in bytes.
func sizeOf(j *queue.Job) int {
	size := len(j.Payload)
	for name, value := range j.Headers {
		size += len(name) + len(value)
	}
	return size
}

// assign shares the jobs of a claim out, and makes the workers of the clients their holders. It
// releases the jobs for which that is not possible.
func (h *Handler) assign(b *batch, jobs []*queue.Job) (shares [][]*queue.Job) {
	shares, rest := b.share(jobs)
	var moved []*queue.Job
	var workers []string
	for i, c := range b.clients {
		for _, j := range shares[i] {
			if j.Worker != c.req.Worker {
				moved, workers = append(moved, j), append(workers, c.req.Worker)
			}
		}
	}
	if len(moved) > 0 {
		rest = append(rest, h.reassign(workers, moved)...)
	}
	h.release(rest)
	isReleased := make(map[*queue.Job]bool, len(rest))
	for _, j := range rest {
		isReleased[j] = true
	}
	for i, share := range shares {
		shares[i] = slices.DeleteFunc(share, func(j *queue.Job) bool { return isReleased[j] })
	}
	return shares
}

// reassign makes the workers the holders of claimed jobs. It returns the jobs for which that has
// failed. After an error it is not known who holds the jobs, so it releases those that the workers
// hold.
func (h *Handler) reassign(workers []string, jobs []*queue.Job) (left []*queue.Job) {
	ctx, cancel := h.callContext()
	defer cancel()
	left, err := h.reassigner.Reassign(ctx, workers, jobs...)
	if err != nil {
		h.options.Logger.Warn("errand: gateway: claimed jobs not given to their workers, will be released", "jobs", len(jobs), "error", err)
		h.release(heldBy(workers, jobs)) // Reassign may have done it all the same
		return jobs
	}
	return left
}

// heldBy returns the jobs as the workers would hold them.
func heldBy(workers []string, jobs []*queue.Job) []*queue.Job {
	all := make([]*queue.Job, len(jobs))
	for i, j := range jobs {
		all[i] = &queue.Job{ID: j.ID, Fence: j.Fence, Worker: workers[i]}
	}
	return all
}
