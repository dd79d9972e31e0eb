package engine

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// longestPause is the longest pause before a failed call is retried.
const longestPause = 3 * time.Second

// callLog logs when an operation of the worker begins to fail, when it fails with a new error, and
// when it works again. It decides how long to pause before a retry. Only one goroutine may use it.
type callLog struct {
	log       *slog.Logger
	operation string
	failures  int
	since     time.Time
	logged    []string             // the shapes of the errors that were logged since then
	last      map[string]time.Time // when each shape was last logged, also in earlier outages
}

const (
	// maxShapes is how many different errors of one outage are logged at most.
	maxShapes = 10
	// sameOutage is how long after a record a similar error gets none, also if the operation has
	// worked meanwhile: one that fails now and then would fill the log.
	sameOutage = time.Minute
)

// watchCalls returns a callLog for the calls of that operation.
func (s *shared) watchCalls(operation string) *callLog {
	return &callLog{log: s.Logger, operation: operation}
}

// report notes the error that a call returned, or nil, and returns how long to pause. The pause
// after a failure is 50 ms, doubled for each failure before, and at most 3 s. Up to half of it is
// subtracted at random.
func (c *callLog) report(err error) (pause time.Duration) {
	const shortest = 50 * time.Millisecond
	switch {
	case err != nil:
		if c.failures == 0 {
			c.since = time.Now()
		}
		if c.isNew(err) {
			c.log.Error("errand: "+c.operation+" failed, will retry", "error", err)
		}
		pause = min(shortest<<min(c.failures, 10), longestPause)
		c.failures++
		return pause - rand.N(pause/2)
	case c.failures > 0:
		if len(c.logged) > 0 {
			c.log.Info("errand: "+c.operation+" works again", "failures", c.failures, "failed_for", time.Since(c.since))
		}
		c.failures = 0
		c.logged = nil
	}
	return 0
}

// isNew reports whether no similar error has been logged since the operation last worked, nor
// within sameOutage. Errors that differ in digits only are similar: ports, addresses and durations
// change with each call.
func (c *callLog) isNew(err error) bool {
	shape := shapeOf(queue.ErrorText(err))
	if len(c.logged) == maxShapes || slices.Contains(c.logged, shape) {
		return false
	}
	now := time.Now()
	if at, ok := c.last[shape]; ok && now.Sub(at) < sameOutage {
		return false
	}
	if c.last == nil || len(c.last) == maxShapes {
		c.last = make(map[string]time.Time)
	}
	c.last[shape] = now
	c.logged = append(c.logged, shape)
	return true
}
