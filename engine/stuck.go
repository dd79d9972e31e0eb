package engine

import (
	"bytes"
	"context"
	"runtime"

	"github.com/errandhq/errand/queue"
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

// findings are what a check of the held jobs has found.
type findings struct {
	late  []*queue.Job // their handlers were cancelled, because their leases are about to expire
	stale []*queue.Job // released, because their leases are about to expire and they have not been started
	stuck []stuckHandler
}

// stuckHandler is a handler that ignores the end of its context.
type stuckHandler struct {
	job         *queue.Job
	isAnnounced bool // it is OnDead
	cause       error
	stack       string
}

// addStuck adds a handler that ignores the end of its context, once. The caller has locked the held
// jobs.
func (f *findings) addStuck(h *heldJob, stacks func() []byte) {
	if h.isReported {
		return
	}
	h.isReported = true
	f.stuck = append(f.stuck, stuckHandler{h.job, h.isAnnounced, context.Cause(h.ctx), h.slot.stackIn(stacks())})
}

// logFindings logs what a check has found.
func (s *shared) logFindings(found findings) {
	for _, job := range found.late {
		s.Logger.Warn("errand: lease could not be extended in time, handler cancelled", jobAttrs(job)...)
	}
	s.logStale(found.stale...)
	for _, h := range found.stuck {
		text := "errand: handler ignores that its context has ended, its slot is busy until it returns"
		if h.isAnnounced {
			text = "errand: OnDead ignores that its context has ended, its slot is busy until it returns"
		}
		s.Logger.Error(text, append(jobAttrs(h.job), "cause", h.cause, "stack", h.stack)...)
	}
}
