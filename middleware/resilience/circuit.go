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

// leastWait is how long a job is snoozed at least, unless Delay is less: it should
// not spin between the table and a circuit that is about to change.
const leastWait = time.Second

// circuit is the breaker of one kind. To failsafe-go's it adds two things: a run
// that began before the circuit last changed, in another period, does not count in
// this one; and a trial that has nothing to say passes its permit on to the next
// job, because failsafe-go takes one back only for a success or a failure.
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

// run runs the job if the circuit lets it.
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

// begin lets a job run in this period, or says how long it is to wait: above 0.
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

// end records what a run of that period said.
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

// wait is how long a job is put off that comes now. Called with c.mu held.
func (c *circuit) wait() time.Duration {
	d := c.breaker.RemainingDelay()
	if c.state == HalfOpen {
		d = min(time.Since(c.since), c.options.Delay)
	}
	return spread(max(d, min(leastWait, c.options.Delay)))
}

// changed is called by breaker within its other methods, with c.mu held.
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

// tell tells OnChange what it has not been told, unless another job is about it:
// then that one goes on to tell.
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
