package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/queue/driver"
)

// announcementLasts is how long an announcement of Sleep counts here: half of the minute for which
// it is valid.
const announcementLasts = 30 * time.Second

// lookout lets the backend wake the groups of some queues: to the backend it is one worker, however
// many clients wait.
type lookout struct {
	h       *Handler
	name    string // of the worker that the backend wakes
	queues  []string
	waiter  driver.Waiter // nil: the backend cannot wake
	canWake atomic.Bool
	isDeaf  atomic.Bool     // the backend could wake, but cannot at the moment
	ctx     context.Context // ends with the lookout
	end     context.CancelFunc

	asking sync.Mutex // held during a call of Sleep

	mu      sync.Mutex
	groups  []*group
	calls   int       // of Sleep; the number of the last one is that of the announcement
	forgets int       // of forget
	until   time.Time // until when the announcement is valid; zero: there is none
	next    time.Time // when the next scheduled job is due; zero: none is scheduled
}

// lookoutOf returns the lookout of these queues. The caller holds h.mu.
func (h *Handler) lookoutOf(queues []string) *lookout {
	key := strings.Join(queues, "\n")
	l := h.lookouts[key]
	if l == nil {
		h.drawn++
		l = &lookout{h: h, name: fmt.Sprintf("%s-%d", h.name, h.drawn), queues: queues}
		l.ctx, l.end = context.WithCancel(h.ctx)
		l.waiter, _ = driver.As[driver.Waiter](h.queue)
		if l.waiter != nil {
			l.canWake.Store(true)
			h.running.Go(l.listen)
		}
		h.lookouts[key] = l
	}
	return l
}

// listen lets the backend wake the groups until the lookout ends.
func (l *lookout) listen() {
	checking, endChecking := context.WithCancel(l.ctx)
	var checks sync.WaitGroup
	checks.Go(func() { l.checkListen(checking) })
	err := l.waiter.Listen(l.ctx, l.name, l.queues, l.wake)
	endChecking()
	checks.Wait()
	l.canWake.Store(false)
	if err != nil && l.ctx.Err() == nil {
		l.h.options.Logger.Info("errand: gateway: the backend cannot wake, gateway polls", "poll", l.poll(), "error", err)
	}
}

// checkListen asks each second whether the backend hears of jobs, if it can tell, until ctx ends.
// Meanwhile the gateway polls, and no client waits to be woken.
func (l *lookout) checkListen(ctx context.Context) {
	checker, ok := driver.As[driver.Waiter](l.h.queue)
	if !ok {
		return
	}
	listening := failing{what: "listening for jobs"}
	ticker := time.NewTicker(pollUnwoken)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			err := checker.CheckListen(l.name)
			if !l.isDeaf.Swap(err != nil) && err != nil {
				l.sendAway()
			}
			l.h.report(&listening, err)
		}
	}
}

// wakes reports whether the backend wakes the groups.
func (l *lookout) wakes() bool { return l.canWake.Load() && !l.isDeaf.Load() }

// sendAway ends what waits to be woken: the sleep of each group, and all listeners, who then claim
// by themselves.
func (l *lookout) sendAway() {
	for _, g := range l.forget() {
		g.sendAway()
	}
}

// poll returns how often to claim while nothing says that there are jobs.
func (l *lookout) poll() time.Duration {
	switch {
	case l.h.options.Poll > 0:
		return l.h.options.Poll
	case l.wakes():
		return pollWoken
	}
	return pollUnwoken
}

func (l *lookout) add(g *group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups = append(l.groups, g)
}

func (l *lookout) remove(g *group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups = slices.DeleteFunc(l.groups, func(other *group) bool { return other == g })
}

// isUnused reports whether no group needs the lookout.
func (l *lookout) isUnused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.groups) == 0
}

// wake wakes all groups: a job of the queues may be due, or due at another time.
func (l *lookout) wake() {
	for _, g := range l.forget() {
		g.wake()
	}
}

// forget makes the next announce ask the backend, and returns the groups.
func (l *lookout) forget() []*group {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Time{}
	l.forgets++
	return slices.Clone(l.groups)
}

// announcement returns the number of the announcement that is valid, or 0. It is not valid any more
// once the backend has woken the gateway, or a scheduled job is due.
func (l *lookout) announcement() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !now.Before(l.until) || !l.next.IsZero() && !now.Before(l.next) {
		return 0
	}
	return l.calls
}

// announce announces to the backend that the gateway sleeps, unless an announcement is valid. It
// returns until when there is nothing to do unless the backend wakes the gateway.
func (l *lookout) announce(ctx context.Context) (isNew bool, until time.Time, err error) {
	if l.waiter == nil {
		return false, time.Now().Add(announcementLasts), nil
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.announcement() == 0 {
		isNew = true
		err = l.ask(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	until = l.until
	if !l.next.IsZero() && l.next.Before(until) {
		until = l.next
	}
	return isNew, until, err
}

// ask calls Sleep. If the backend wakes the gateway meanwhile, its announcement is over already.
func (l *lookout) ask(ctx context.Context) error {
	l.mu.Lock()
	forgets := l.forgets
	l.mu.Unlock()
	begun := time.Now()
	next, err := l.waiter.Sleep(ctx, l.name, l.queues)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.next = time.Time{}
	if next >= 0 {
		l.next = time.Now().Add(next)
	}
	if l.forgets == forgets {
		l.until = begun.Add(announcementLasts)
	}
	return nil
}

// untilNext returns how long until the next scheduled job is due, as announce has learnt it, or
// less than 0 if none is scheduled.
func (l *lookout) untilNext() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next.IsZero() {
		return -1
	}
	return max(time.Until(l.next), 0)
}

// noteWrite makes the lookouts of the queue ask the backend for the next due job again: the gateway
// has itself written a job. The backend may tell so later.
func (h *Handler) noteWrite(name string) {
	for _, l := range h.lookoutsOf(name) {
		l.forget()
	}
}

// lookoutsOf returns the lookouts of a queue, or all of them if name is "".
func (h *Handler) lookoutsOf(name string) (all []*lookout) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lookouts {
		if name == "" || slices.Contains(l.queues, name) {
			all = append(all, l)
		}
	}
	return all
}
