package resilience

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/errandhq/errand/queue"
)

// leastWait is the shortest snooze, unless Delay is shorter. It keeps jobs from being claimed again
// and again while a circuit is about to change.
const leastWait = time.Second

// circuit is the breaker of one kind. It adds two rules to failsafe-go's. A run counts only if the
// circuit has not changed since the run began: changes divide time into periods. And a trial that
// is neither a success nor a failure passes its permit on to the next job, because failsafe-go
// takes a permit back only for a success or a failure.
type circuit struct {
	kind    string
	options CircuitBreakerOptions

	mu      sync.Mutex
	breaker circuitbreaker.CircuitBreaker[any]
	state   State
	period  int       // counts the changes of state
	since   time.Time // when it last changed
	spare   int       // permits of trials that had nothing to say
	changes []change  // of which OnChange has not been told

	untold  atomic.Int32 // the length of changes, to be read without mu
	telling atomic.Bool  // OnChange is being told
}

type change struct{ from, to State }

func newCircuit(kind string, o CircuitBreakerOptions) *circuit {
	c := &circuit{kind: kind, options: o, state: Closed}
	c.breaker = circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(uint(o.Failures)).
		WithSuccessThreshold(uint(o.Successes)).
		WithDelay(o.Delay).
		OnStateChanged(c.changed).
		Build()
	return c
}

// run runs the job if the circuit allows it, and snoozes it otherwise.
func (c *circuit) run(ctx context.Context, job *queue.Job, next queue.Handler) error {
	period, wait := c.begin()
	if wait > 0 {
		return fmt.Errorf("resilience: circuit of kind %q is not closed: %w", c.kind, queue.Snooze(wait))
	}
	said := failure // unless the handler returns: it may panic, or call runtime.Goexit
	defer func() {
		c.end(period, said)
		c.tell()
	}()
	c.tell()
	err := next.HandleJob(ctx, job)
	said = c.options.judge(ctx, err)
	return err
}

// begin admits a job to this period. If wait is above 0, the job was not admitted and must wait
// that long.
func (c *circuit) begin() (period int, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spare > 0 {
		c.spare--
		return c.period, 0
	}
	if !c.breaker.TryAcquirePermit() {
		return 0, c.wait()
	}
	return c.period, 0
}

// end records the result of a run that began in that period.
func (c *circuit) end(period int, said result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case period != c.period:
	case said == success:
		c.breaker.RecordSuccess()
	case said == failure:
		c.breaker.RecordFailure()
	case c.state == HalfOpen:
		c.spare++
	}
}

// wait returns how long a job that comes now must wait. The caller holds c.mu.
func (c *circuit) wait() time.Duration {
	d := c.breaker.RemainingDelay()
	if c.state == HalfOpen {
		d = min(time.Since(c.since), c.options.Delay)
	}
	return spread(max(d, min(leastWait, c.options.Delay)))
}

// changed records a change of state. The breaker calls it inside its other methods, so the caller
// holds c.mu.
func (c *circuit) changed(e circuitbreaker.StateChangedEvent) {
	from := c.state
	c.state = State(e.NewState.String())
	c.period++
	c.since = time.Now()
	c.spare = 0
	if c.options.OnChange != nil {
		c.changes = append(c.changes, change{from, c.state})
		c.untold.Add(1)
	}
}

// tell calls OnChange for each change that it has not been told. If another goroutine is already
// doing so, that one tells these changes too.
func (c *circuit) tell() {
	for c.untold.Load() > 0 && c.telling.CompareAndSwap(false, true) {
		c.tellAll()
	}
}

func (c *circuit) tellAll() {
	defer c.telling.Store(false)
	for ch, ok := c.nextChange(); ok; ch, ok = c.nextChange() {
		c.options.OnChange(c.kind, ch.from, ch.to)
	}
}

func (c *circuit) nextChange() (ch change, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.changes) == 0 {
		return ch, false
	}
	ch, c.changes = c.changes[0], c.changes[1:]
	c.untold.Add(-1)
	return ch, true
}
