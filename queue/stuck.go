package queue

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"time"
)

// slot is a goroutine that runs handlers, one after the other: how its entry in a
// dump of all stacks begins, such as "goroutine 7 [".
type slot []byte

// currentSlot is the goroutine that calls it.
func currentSlot() slot {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	head, _, _ := bytes.Cut(buf, []byte("["))
	return append(head, '[')
}

// stackIn returns what the goroutine is doing, in a dump of all stacks.
func (s slot) stackIn(dump []byte) string {
	_, entry, found := bytes.Cut(dump, append([]byte("\n\n"), s...))
	if !found {
		return string(s) + "gone]"
	}
	entry, _, _ = bytes.Cut(entry, []byte("\n\n"))
	return string(s) + string(entry)
}

// allStacks dumps the stacks of all goroutines, the caller's first. It stops the
// program for as long as that takes.
func allStacks() []byte {
	const most = 64 << 20
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < most {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	return buf[:n]
}

// noteStuck reports a handler whose context ended long enough ago. Called with r.mu
// held.
func (r *run) noteStuck(h *heldJob, now time.Time, stacks func() []byte) {
	if h.cancelSeen.IsZero() {
		h.cancelSeen = now
	} else if now.Sub(h.cancelSeen) >= stuckAfter {
		r.reportStuck(h, stacks)
	}
}

// releaseStuck reports the handlers that still run and gives their jobs back.
func (r *run) releaseStuck() (n int) {
	stacks := sync.OnceValue(allStacks)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.held.jobs {
		if !h.isBusy() {
			continue
		}
		n++
		r.reportStuck(h, stacks)
		r.held.abandon(h)
	}
	signal(r.settle)
	return n
}

// reportStuck logs, once, a handler that ignores the end of its context. Called
// with r.mu held.
func (r *run) reportStuck(h *heldJob, stacks func() []byte) {
	if h.isReported {
		return
	}
	h.isReported = true
	r.Logger.Error("errand: handler ignores that its context has ended",
		append(jobAttrs(h.job), "cause", context.Cause(h.ctx), "stack", h.slot.stackIn(stacks()))...)
}
