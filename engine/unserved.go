package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
)

// unservedAfter is how long a worker waits for the other workers of its process to start: a program
// may start them one after the other, each when the one before is ready.
const unservedAfter = 30 * time.Second

// served is which queues the running workers of this process serve, by their Mux.
var served = struct {
	mu    sync.Mutex
	muxes map[*queue.Mux]*servedQueues
}{muxes: make(map[*queue.Mux]*servedQueues)}

// servedQueues is which queues the running workers of a Mux serve.
type servedQueues struct {
	running int             // how many workers run
	workers map[string]int  // by queue: how many workers serve it
	warned  map[string]bool // the queues of which a worker has warned
}

// serve notes that a worker of the Mux serves the queues until it calls end.
func serve(mux *queue.Mux, queues []string) (end func()) {
	add := func(n int) {
		served.mu.Lock()
		defer served.mu.Unlock()
		s := served.muxes[mux]
		if s == nil {
			s = &servedQueues{workers: make(map[string]int), warned: make(map[string]bool)}
			served.muxes[mux] = s
		}
		for _, queue := range queues {
			s.workers[queue] += n
		}
		if s.running += n; s.running == 0 {
			delete(served.muxes, mux)
		}
	}
	add(+1)
	return func() { add(-1) }
}

// takeUnserved returns the kinds, by their queue, whose queue no worker of the Mux serves, except
// for queues that it has returned before while workers of the Mux ran.
func takeUnserved(mux *queue.Mux) map[string][]string {
	unserved := make(map[string][]string)
	served.mu.Lock()
	defer served.mu.Unlock()
	s := served.muxes[mux]
	for _, kind := range mux.Kinds() {
		if queue := mux.QueueOf(kind); queue != "" && s.workers[queue] == 0 && !s.warned[queue] {
			unserved[queue] = append(unserved[queue], kind)
		}
	}
	for queue := range unserved {
		s.warned[queue] = true
	}
	return unserved
}

// warnUnserved logs the kinds whose jobs go to queues that no worker with the same Mux serves. A
// worker of a different process may serve them, so this is no error. Of several workers only one
// warns of a queue. It leaves out kinds without a Queue: their jobs go to the default queue only if
// the code that enqueues names no other, which the worker cannot know.
func (s *shared) warnUnserved(ctx context.Context) {
	mux, ok := queue.MuxOf(s.Handler)
	if !ok {
		return
	}
	defer serve(mux, s.Queues)()
	if upkeep.Sleep(ctx, unservedAfter) {
		kinds := takeUnserved(mux)
		for _, queue := range slices.Sorted(maps.Keys(kinds)) {
			s.unnamed.Warn("errand: the Mux handles kinds whose jobs go to a queue that no worker of it serves in this process; they do not run here",
				"queue", queue, "kinds", kinds[queue])
		}
	}
	<-ctx.Done()
}
