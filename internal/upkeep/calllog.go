package upkeep

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// LongestPause is the longest pause before a failed call is retried.
const LongestPause = 3 * time.Second

// CallLog logs when an operation of a worker or a gateway begins to fail, when it fails with a new
// error, and when it works again. It decides how long to pause before a retry. Only one goroutine
// may use it.
type CallLog struct {
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
	// maxShape is how many bytes of an error decide whether it is similar to another.
	maxShape = 200
)

// NewCallLog returns a CallLog for the calls of that operation.
func NewCallLog(log *slog.Logger, operation string) *CallLog {
	return &CallLog{log: log, operation: operation}
}

// Report notes the error that a call returned, or nil, and returns how long to pause. The pause
// after a failure is 50 ms, doubled for each failure before, and at most 3 s. Up to half of it is
// subtracted at random.
func (c *CallLog) Report(err error) (pause time.Duration) {
	const shortest = 50 * time.Millisecond
	switch {
	case err != nil:
		if c.failures == 0 {
			c.since = time.Now()
		}
		if c.isNew(err) {
			c.log.Error("errand: "+c.operation+" failed, will retry", "error", err)
		}
		pause = min(shortest<<min(c.failures, 10), LongestPause)
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

// Since returns when the operation began to fail, the zero time while it works.
func (c *CallLog) Since() time.Time {
	if c.failures == 0 {
		return time.Time{}
	}
	return c.since
}

// isNew reports whether no similar error has been logged since the operation last worked, nor
// within sameOutage. Errors that differ in digits only are similar: ports, addresses and durations
// change with each call.
func (c *CallLog) isNew(err error) bool {
	shape := ShapeOf(queue.ErrorText(err))
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

// ShapeOf returns the text of an error as far as it decides whether errors are similar: without
// digits, because IDs, ports, addresses and durations differ each time.
func ShapeOf(text string) string {
	return strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' {
			return -1
		}
		return c
	}, text[:min(len(text), maxShape)])
}
