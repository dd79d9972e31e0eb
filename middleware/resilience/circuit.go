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
// circuit has not changed since the run began: each change begins a new period. And a trial that is
// neither a success nor a failure passes its permit on to the next job, because failsafe-go frees a
// permit only after a success or a failure.
type circuit struct {
	kind    string
	options CircuitBreakerOptions

	mu          sync.Mutex
	breaker     circuitbreaker.CircuitBreaker[any]
	state       State
	period      int       // counts the changes of state
	since       time.Time // when it last changed
	freePermits int       // permits of trials that were neither a success nor a failure
	changes     []change  // changes that OnChange has not yet been called for

	pending   atomic.Int32 // the length of changes, for reading without mu
	notifying atomic.Bool  // a goroutine calls OnChange for the changes
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
	got := failure // stays so if the handler panics or calls runtime.Goexit
	defer func() {
		c.end(period, got)
		c.notify()
	}()
	c.notify()
	err := next.HandleJob(ctx, job)
	got = c.options.judge(ctx, err)
	return err
}

// begin admits a job to this period. If wait is above 0, the job was not admitted and must wait
// that long.
func (c *circuit) begin() (period int, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freePermits > 0 {
		c.freePermits--
		return c.period, 0
	}
	if !c.breaker.TryAcquirePermit() {
		return 0, c.wait()
	}
	return c.period, 0
}

// end records the result of a run that began in that period.
func (c *circuit) end(period int, got result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case period != c.period:
	case got == success:
		c.breaker.RecordSuccess()
	case got == failure:
		c.breaker.RecordFailure()
	case c.state == HalfOpen:
		c.freePermits++
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
	c.freePermits = 0
	if c.options.OnChange != nil {
		c.changes = append(c.changes, change{from, c.state})
		c.pending.Add(1)
	}
}

// notify calls OnChange for each change that it has not yet been called for. If another goroutine
// already does so, that goroutine also calls OnChange for these changes.
func (c *circuit) notify() {
	for c.pending.Load() > 0 && c.notifying.CompareAndSwap(false, true) {
		c.notifyAll()
	}
}

func (c *circuit) notifyAll() {
	defer c.notifying.Store(false)
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
	c.pending.Add(-1)
	return ch, true
}
