package gateway

import (
	"context"
	"slices"
	"time"
)

// listener is a client that waits to be woken, and then claims by itself, as workers in Go do.
// Listeners are woken one by one: the next one when a claim of the group has found jobs, and nobody
// more when one was empty. So a job wakes two workers of a thousand, not all of them.
type listener struct {
	woken chan struct{} // closed when it is woken
}

// escalation is how long the gateway waits for a claim after it has woken a listener. Then it wakes
// the next one: the first may be dead.
const escalation = 50 * time.Millisecond

// listen waits until the client should claim, and reports whether it should: not if wait has
// passed, ctx has ended, or the gateway drains.
func (g *group) listen(ctx context.Context, wait time.Duration) (isWoken bool) {
	l := &listener{woken: make(chan struct{})}
	g.mu.Lock()
	g.listeners = append(g.listeners, l)
	if g.isOwed {
		g.wakeNext()
	}
	g.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-l.woken:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-g.h.draining.Done():
	}
	return !g.remove(l)
}

// remove removes a listener. It reports false if it was woken meanwhile.
func (g *group) remove(l *listener) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.listeners, l)
	if i < 0 {
		return false
	}
	g.listeners = slices.Delete(g.listeners, i, i+1)
	return true
}

// wakeNext wakes the first listener if there may be jobs for it. If there is none, it is owed to
// the next one that comes. The caller holds g.mu.
func (g *group) wakeNext() {
	if g.isOwed = g.isWoken && len(g.listeners) == 0; !g.isWoken || g.isOwed {
		return
	}
	close(g.listeners[0].woken)
	g.listeners = slices.Delete(g.listeners, 0, 1)
	if g.escalate == nil {
		g.escalate = time.AfterFunc(escalation, g.wakeAgain)
		return
	}
	g.escalate.Reset(escalation)
}

// wakeAgain wakes the next listener, because the last one has not claimed in time.
func (g *group) wakeAgain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wakeNext()
}

// sendAway ends the sleep of the loop, and wakes all listeners.
func (g *group) sendAway() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notify()
	for _, l := range g.listeners {
		close(l.woken)
	}
	g.listeners = nil
}
