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
func (r *run) noteStuck(f *flight, now time.Time, stacks func() []byte) {
	if f.ended.IsZero() {
		f.ended = now
	} else if now.Sub(f.ended) >= stuckAfter {
		r.reportStuck(f, stacks)
	}
}

// releaseStuck reports the handlers that still run and gives their jobs back.
func (r *run) releaseStuck() (n int) {
	stacks := sync.OnceValue(allStacks)
	r.mu.Lock()
	defer r.mu.Unlock()
	for job, f := range r.held {
		if f.slot == nil {
			continue
		}
		n++
		r.reportStuck(f, stacks)
		if !f.lost && !f.given {
			r.give(f, Outcome{Job: job, Action: Release})
		}
	}
	return n
}

// reportStuck logs, once, a handler that ignores the end of its context. Called
// with r.mu held.
func (r *run) reportStuck(f *flight, stacks func() []byte) {
	if f.reported {
		return
	}
	f.reported = true
	r.Logger.Error("errand: handler ignores that its context has ended",
		append(jobAttrs(f.job), "cause", context.Cause(f.ctx), "stack", f.slot.stackIn(stacks()))...)
}
