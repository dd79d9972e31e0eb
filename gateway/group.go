package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// A group is the clients that want jobs of the same queues and kinds. Its problem: a thousand
// workers that each claim, find nothing and sleep would send the database a thousand claims for
// each job. Its rule: one loop claims for all clients at once, and shares the jobs out in the order
// in which the clients came (batch.go). A claim that comes back empty is the answer for all clients
// that came before it began. Then the loop announces that it sleeps, claims once more, and sleeps
// until the backend wakes it, the next job is due, or Poll has passed: as a single worker does. So
// while nothing is due, clients that wait cost nothing. A client that comes while the loop sleeps
// makes no claim either, if it can wait: the loop would have been woken for a due job.
//
// Shown by: TestIdleClients, TestBusyClients, TestOrderOfClients.
type group struct {
	h       *Handler
	lookout *lookout

	mu        sync.Mutex
	usedAt    time.Time // when groupOf last returned it
	clients   []*client // those that wait for a claim, in the order in which they came
	arrivals  int       // how many clients have joined
	isRunning bool      // run is running
	signal    chan struct{}
	claimedAt time.Time // when the last claim that came back empty began
	emptyAt   time.Time // when the last one began that says that no job was due
	emptyIn   int       // the announcement that was valid then; 0: none was
	settles   int64     // how often clients had settled jobs then

	listeners []*listener // those that wait to be woken, in the order in which they came
	wakes     int         // how often the group was woken
	isWoken   bool        // no claim that began after the last wake-up has come back empty
	isOwed    bool        // the wake-up has woken nobody yet
	escalate  *time.Timer // wakes the next listener if the last one does not claim
}

// client is a claim of a client.
type client struct {
	req       queue.ClaimRequest
	canWait   bool        // it is answered when there is a job; else after the next empty claim
	answer    chan claims // gets one answer
	arrival   int         // its number among the clients of the group
	isServed  bool        // a claim for it is under way, maybe together with others
	isLeaving bool        // it wants an answer as soon as that claim has returned
}

// claims is the answer to a client.
type claims struct {
	jobs []*queue.Job
	err  error
}

// groupOf returns the group of these queues and kinds, in whatever order. It fails if there are too
// many groups that clients use.
func (h *Handler) groupOf(queues, kinds []string) (*group, error) {
	queues, kinds = slices.Compact(slices.Sorted(slices.Values(queues))), slices.Compact(slices.Sorted(slices.Values(kinds)))
	key := strings.Join(queues, "\n") + "\n\n" + strings.Join(kinds, "\n")
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[key]
	if g == nil {
		if len(h.groups) >= maxGroups {
			h.drop(time.Now(), betweenRequests)
		}
		if len(h.groups) >= maxGroups {
			return nil, failed(wire.CodeTooMany, "clients name %d different sets of queues and kinds already", maxGroups)
		}
		g = &group{h: h, signal: make(chan struct{}, 1), lookout: h.lookoutOf(queues)}
		g.lookout.add(g)
		h.groups[key] = g
	}
	g.touch()
	return g, nil
}

func (g *group) touch() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.usedAt = time.Now()
}

const (
	// groupKept is how long a group is kept that nobody uses: longer than a sleeping worker is silent.
	groupKept = 2 * time.Minute
	// maxGroups is how many groups there may be. If there are more, those are dropped that nobody has
	// used for betweenRequests, in which a client that is not lost comes back.
	maxGroups       = 1000
	betweenRequests = 5 * time.Second
)

// isUnused reports whether nobody has used the group for so long.
func (g *group) isUnused(now time.Time, kept time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.isRunning && len(g.clients) == 0 && len(g.listeners) == 0 && now.Sub(g.usedAt) > kept
}

// sweep drops the groups that nobody uses, and the lookouts without groups.
func (h *Handler) sweep(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(now, groupKept)
}

// drop drops the groups that nobody has used for so long, and the lookouts without groups. The
// caller holds h.mu.
func (h *Handler) drop(now time.Time, kept time.Duration) {
	for key, g := range h.groups {
		if g.isUnused(now, kept) {
			delete(h.groups, key)
			g.lookout.remove(g)
		}
	}
	for key, l := range h.lookouts {
		if l.isUnused() {
			delete(h.lookouts, key)
			l.end()
		}
	}
}

// notify makes the loop look what has changed.
func (g *group) notify() {
	select {
	case g.signal <- struct{}{}:
	default:
	}
}

// join adds a client, and starts the loop if it does not run.
func (g *group) join(c *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrivals++
	c.arrival = g.arrivals
	g.clients = append(g.clients, c)
	switch {
	case !g.isRunning:
		g.isRunning = true
		g.h.running.Go(g.run)
	case !c.canWait || !g.isQuiet():
		g.notify()
	}
}

// isQuiet reports whether no job can have become due since a claim that came back empty: the
// backend would have woken the group. It does not wake for the end of a job that others wait for,
// as ordered ones do, because the worker that settles it claims at once. Where the backend cannot
// wake, the group is quiet until the next poll. The caller holds g.mu.
func (g *group) isQuiet() bool {
	if g.settles != g.h.settles.Load() {
		return false
	}
	if !g.lookout.waker.CanWake() {
		return time.Since(g.emptyAt) < g.lookout.waker.Poll()
	}
	valid := g.lookout.announcement()
	return valid != 0 && valid == g.emptyIn
}

// isQuietPoll is isQuiet for a client that only looks again. It is false once in each poll, so that
// a client finds a job for which the backend has woken nobody.
func (g *group) isQuietPoll() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isQuiet() && time.Since(g.emptyAt) < g.lookout.waker.Poll()
}

// leave removes a client that waits no longer. If a claim for it is under way, it reports false:
// the client then gets an answer when that has returned.
func (g *group) leave(c *client) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.isServed {
		c.isLeaving = true
		return false
	}
	i := slices.Index(g.clients, c)
	if i < 0 {
		return false // it has its answer
	}
	g.clients = slices.Delete(g.clients, i, i+1)
	if len(g.clients) == 0 {
		g.notify()
	}
	return true
}

// run claims for the clients until there are none.
func (g *group) run() {
	if g.isQuietPoll() {
		g.sleep()
	}
	for {
		b := g.next()
		if b == nil {
			return
		}
		if g.h.isDraining() {
			g.refuseAll()
			continue
		}
		jobs, err := g.claim(b.request())
		switch {
		case err != nil:
			g.fail(b, err)
		case len(jobs) > 0:
			if g.deliver(b, g.h.assign(b, jobs)) {
				g.gather(b.at)
			}
		case g.noteEmpty(b):
			g.sleep()
		}
	}
}

// claim claims for clients, without the kinds that are paused.
func (g *group) claim(req queue.ClaimRequest) ([]*queue.Job, error) {
	kinds, isPaused, err := g.h.unpaused(req.Kinds)
	if isPaused || err != nil {
		return nil, err
	}
	req.Kinds = kinds
	ctx, cancel := g.h.callContext()
	defer cancel()
	return g.h.queue.Claim(ctx, req)
}

// deliver gives each client of a batch its share of the jobs. A client without one that cannot wait
// and has no free slot gets an empty answer: while others run all jobs that come, it would wait for
// long. deliver reports whether clients of the batch have no share.
func (g *group) deliver(b *batch, shares [][]*queue.Job) (isShort bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.emptyIn = 0
	answers := make(map[*client]claims, len(b.clients))
	for i, c := range b.clients {
		if len(shares[i]) > 0 {
			answers[c] = claims{jobs: shares[i]}
		}
	}
	g.answerIf(func(c *client) (claims, bool) {
		got, ok := answers[c]
		return got, ok || c.isServed && !c.canWait && c.freeSlots() == 0
	})
	g.endBatch(b)
	g.wakeNext()
	return len(answers) < len(b.clients)
}

// fail gives the error of a claim to all clients that had come when it began: those that can wait
// would fail as well. That a payload was not read in time is told only to the first client of the
// batch: its job is released, and the claims of the others go on.
func (g *group) fail(b *batch, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, isSlow := errors.AsType[*driver.SlowError](err)
	g.answerIf(func(c *client) (claims, bool) {
		return claims{err: err}, c == b.clients[0] || !isSlow && c.arrival <= b.arrivals
	})
	g.endBatch(b)
}

// noteEmpty notes that a claim came back empty. It is the answer for the clients that had come when
// it began and cannot wait, and reports whether the loop may sleep. A claim for clients without a
// free slot says nothing about the others: a rule may have kept it from claiming.
func (g *group) noteEmpty(b *batch) (maySleep bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.endBatch(b)
	g.claimedAt = b.at
	if g.wakes == b.wakes {
		g.isWoken, g.isOwed = false, false
	}
	if !b.hasFreeSlot() {
		g.answerIf(func(c *client) (claims, bool) { return claims{}, c.isServed && !c.canWait })
		return !slices.ContainsFunc(g.clients, func(c *client) bool { return c.freeSlots() > 0 })
	}
	g.emptyAt, g.emptyIn, g.settles = b.at, b.announcement, b.settles
	g.answerIf(func(c *client) (claims, bool) { return claims{}, c.arrival <= b.arrivals && !c.canWait })
	return true
}

// answerIf removes the clients for which answer returns true, and gives them what it returns. The
// caller holds g.mu.
func (g *group) answerIf(answer func(*client) (claims, bool)) {
	g.clients = slices.DeleteFunc(g.clients, func(c *client) bool {
		got, ok := answer(c)
		if ok {
			c.answer <- got
		}
		return ok
	})
}

// refuseAll tells all clients to connect to a different gateway.
func (g *group) refuseAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answerIf(func(*client) (claims, bool) { return claims{err: errDraining}, true })
}

// sleep returns when a claim may find a job, or when a client cannot wait. It returns at once,
// after it has announced that the gateway sleeps, if that was not yet done: a job may have come
// before it.
func (g *group) sleep() {
	if g.hasImpatient() {
		return
	}
	ctx, cancel := g.h.callContext()
	defer cancel()
	isNew, until, err := g.lookout.announce(ctx)
	if isNew && err == nil {
		return
	}
	if poll := g.nextPoll(); err != nil || poll.Before(until) {
		until = poll
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-g.signal:
	case <-timer.C:
	case <-g.h.draining.Done():
	}
}

// nextPoll returns when to claim although nothing says that there are jobs.
func (g *group) nextPoll() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.claimedAt.Add(g.lookout.waker.Poll())
}

// hasImpatient reports whether a client cannot wait, or whether there is none.
func (g *group) hasImpatient() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.clients) == 0 || slices.ContainsFunc(g.clients, func(c *client) bool { return !c.canWait })
}

// wake notes that a job may be due.
func (g *group) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wakes++
	g.isWoken = true
	g.notify()
	g.wakeNext()
}

// claimFor claims for a client of the API. It returns no jobs if none was due in time.
func (g *group) claimFor(ctx context.Context, req queue.ClaimRequest, wait time.Duration) claims {
	c := &client{req: req, canWait: wait > 0, answer: make(chan claims, 1)}
	g.join(c)
	var timeout <-chan time.Time
	if c.canWait {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case got := <-c.answer:
		return got
	case <-ctx.Done():
	case <-timeout:
	}
	if g.leave(c) {
		return claims{}
	}
	return <-c.answer
}
