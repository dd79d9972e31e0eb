package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
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
	waiter  driver.Waiter   // nil: the backend cannot wake
	canWake atomic.Bool     // the backend wakes the groups at the moment
	ctx     context.Context // ends with the lookout
	end     context.CancelFunc

	hasGivenUp atomic.Bool // the backend has said that it cannot wake

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
	err := upkeep.Listen(l.ctx, l.waiter, l.name, l.queues, l.wake, l.h.watchCalls("listening for jobs"), l.setCanWake)
	l.hasGivenUp.Store(true)
	if err != nil && l.ctx.Err() == nil {
		l.h.options.Logger.Info("errand: gateway: the backend cannot wake, gateway polls", "poll", l.poll(), "error", err)
	}
}

// setCanWake notes whether the backend wakes the groups. While it does not, the gateway polls, and
// no client waits to be woken.
func (l *lookout) setCanWake(can bool) {
	if l.canWake.Swap(can) && !can {
		l.sendAway()
	}
}

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
	case l.canWake.Load():
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
