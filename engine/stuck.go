package engine

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"time"
)

// slot is a goroutine that runs handlers, one after the other. Its value is how the goroutine's
// entry in a dump of all stacks begins, such as "goroutine 7 [".
type slot string

// currentSlot returns the slot of the calling goroutine.
func currentSlot() slot {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	head, _, _ := bytes.Cut(buf, []byte("["))
	return slot(head) + "["
}

// stackIn returns the stack of the goroutine, out of a dump of all stacks.
func (s slot) stackIn(dump []byte) string {
	_, entry, found := bytes.Cut(dump, []byte("\n\n"+s))
	if !found {
		return string(s) + "ended]"
	}
	entry, _, _ = bytes.Cut(entry, []byte("\n\n"))
	return string(s) + string(entry)
}

// dumpStacks returns the stacks of all goroutines, the caller's first. It stops the program
// meanwhile.
func dumpStacks() []byte {
	const limit = 64 << 20
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < limit {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	return buf[:n]
}

// noteStuck reports a handler whose context ended stuckAfter ago or earlier. The caller holds r.mu.
func (r *run) noteStuck(h *heldJob, now time.Time, stacks func() []byte) {
	if h.since.IsZero() {
		h.since = now
	} else if now.Sub(h.since) >= stuckAfter {
		r.reportStuck(h, stacks)
	}
}

// releaseStuck reports the handlers that still run and releases their jobs. It returns how many
// handlers run.
func (r *run) releaseStuck() (stuck int) {
	stacks := sync.OnceValue(dumpStacks)
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.held.all() {
		if !h.isBusy() {
			continue
		}
		stuck++
		r.reportStuck(h, stacks)
		if h.state == stateRunning {
			r.interrupted++
		}
		r.held.abandon(h)
	}
	signal(r.settle)
	return stuck
}

// reportStuck logs, once, a handler that ignores the end of its context. The caller holds r.mu.
func (r *run) reportStuck(h *heldJob, stacks func() []byte) {
	if h.isReported {
		return
	}
	h.isReported = true
	text := "errand: handler ignores that its context has ended, its slot is busy until it returns"
	if h.isAnnounced {
		text = "errand: OnDead ignores that its context has ended, its slot is busy until it returns"
	}
	r.Logger.Error(text,
		append(jobAttrs(h.job), "cause", context.Cause(h.ctx), "stack", h.slot.stackIn(stacks()))...)
}
