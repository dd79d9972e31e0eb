package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue/driver"
)

// lookout lets the backend wake the groups of some queues: to the backend it is one worker, however
// many clients wait.
type lookout struct {
	h      *Handler
	queues []string
	waker  *upkeep.Waker
	ctx    context.Context // ends with the lookout
	end    context.CancelFunc

	asking sync.Mutex // held during a call of Sleep

	mu        sync.Mutex
	groups    []*group
	calls     int // of Sleep; the number of the last one is that of the announcement
	forgets   int // of forget
	announced upkeep.Announcement
}

// lookoutOf returns the lookout of these queues. The caller holds h.mu.
func (h *Handler) lookoutOf(queues []string) *lookout {
	key := strings.Join(queues, "\n")
	l := h.lookouts[key]
	if l == nil {
		h.drawn++
		l = &lookout{h: h, queues: queues}
		l.ctx, l.end = context.WithCancel(h.ctx)
		l.waker = upkeep.NewWaker(h.queue, fmt.Sprintf("%s-%d", h.name, h.drawn), queues, h.options.Poll)
		h.running.Go(l.listen)
		h.lookouts[key] = l
	}
	return l
}

// listen lets the backend wake the groups, if it can, until the lookout ends. While it cannot, the
// gateway polls, and no client waits to be woken.
func (l *lookout) listen() {
	err := l.waker.Listen(l.ctx, l.h.watchCalls("listening for jobs"), l.hear, l.sendAway)
	if err != nil {
		l.h.options.Logger.Info("errand: gateway: the backend cannot wake, gateway polls", "poll", l.waker.Poll(), "error", err)
	}
}

// hear wakes the groups if there may be jobs. The gateway listens for paused kinds apart: it has
// lookouts only while clients claim.
func (l *lookout) hear(s driver.Signal) {
	if s.Jobs {
		l.wake()
	}
}

// sendAway ends what waits to be woken: the sleep of each group, and all listeners, who then claim
// by themselves.
func (l *lookout) sendAway() {
	for _, g := range l.forget() {
		g.sendAway()
	}
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
	l.announced.Valid = time.Time{}
	l.forgets++
	return slices.Clone(l.groups)
}

// announcement returns the number of the announcement that is valid, or 0. It is not valid any more
// once the backend has woken the gateway, or a scheduled job is due.
func (l *lookout) announcement() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !time.Now().Before(l.announced.End()) {
		return 0
	}
	return l.calls
}

// announce announces to the backend that the gateway sleeps, unless an announcement is valid. It
// returns until when there is nothing to do unless the backend wakes the gateway. ctx bounds the
// call together with the calls of other groups that it waits for.
func (l *lookout) announce(ctx context.Context) (isNew bool, until time.Time, err error) {
	if l.waker.Waiter == nil {
		return false, time.Now().Add(upkeep.LongestSleep), nil
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.announcement() == 0 {
		isNew = true
		err = l.ask(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return isNew, l.announced.End(), err
}

// ask calls Sleep. If the backend wakes the gateway meanwhile, its announcement is over already.
func (l *lookout) ask(ctx context.Context) error {
	l.mu.Lock()
	forgets := l.forgets
	l.mu.Unlock()
	announced, err := l.waker.Announce(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.forgets != forgets {
		announced.Valid = time.Time{}
	}
	l.announced = announced
	return nil
}

// untilNext returns how long until the next scheduled job is due, as announce has learnt it, or
// less than 0 if none is scheduled.
func (l *lookout) untilNext() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.announced.Due.IsZero() {
		return -1
	}
	return max(time.Until(l.announced.Due), 0)
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
