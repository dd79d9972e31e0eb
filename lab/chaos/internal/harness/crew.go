package harness

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// Crew is a number of worker processes that do the same, each in its place. Crew replaces a worker
// that has ended with one of a new name.
type Crew struct {
	harness *Harness
	work    func(place int) child.Work
	places  []*child.Process
	turn    []int // how many workers each place has had

	supervised bool
}

// Crew starts n workers.
func (h *Harness) Crew(n int, w child.Work) (*Crew, error) {
	return h.MixedCrew(n, func(int) child.Work { return w })
}

// MixedCrew starts n workers. work says what the worker in each place does.
func (h *Harness) MixedCrew(n int, work func(place int) child.Work) (*Crew, error) {
	c := &Crew{harness: h, work: work, places: make([]*child.Process, n), turn: make([]int, n)}
	for place := range n {
		if err := c.Replace(place); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// At returns the worker in a place.
func (c *Crew) At(place int) *child.Process { return c.places[place] }

// Names returns the names of the current workers.
func (c *Crew) Names() (names []string) {
	for _, p := range c.places {
		names = append(names, p.Name)
	}
	return names
}

// Replace starts a new worker in a place. The former worker may run or not.
func (c *Crew) Replace(place int) error {
	c.turn[place]++
	p, err := c.harness.Worker(fmt.Sprintf("w%d.%d", place+1, c.turn[place]), c.work(place))
	if err != nil {
		return err
	}
	c.places[place] = p
	if c.supervised {
		p.AllowKill()
	}
	return nil
}

// Supervise replaces each worker that SIGKILL ends, for example its own handlers'. It does so while
// the harness waits for something, and records the kill as a fault.
func (c *Crew) Supervise() {
	c.supervised = true
	for _, p := range c.places {
		p.AllowKill()
	}
	c.harness.supervised = append(c.harness.supervised, c)
}

// replaceKilled replaces the workers that have been killed. It records the jobs that the table says
// they held.
func (c *Crew) replaceKilled(ctx context.Context) error {
	for place, p := range c.places {
		if !hasEnded(p) || p.Unexpected() != nil {
			continue
		}
		f := audit.Fault{What: "killed itself", At: p.EndedAt(), Worker: p.Name}
		var err error
		if f.Held, err = c.harness.held(ctx, p.Name); err != nil {
			return err
		}
		c.harness.RecordFault(f)
		if err := c.Replace(place); err != nil {
			return err
		}
	}
	return nil
}

// Kill kills the worker in a place, and records the jobs that the table says it held.
func (c *Crew) Kill(ctx context.Context, place int) error {
	return c.harness.Kill(ctx, c.places[place])
}

// Kill kills processes at the same moment, and records the jobs that the table says each held.
func (h *Harness) Kill(ctx context.Context, processes ...*child.Process) error {
	var kills sync.WaitGroup
	for _, p := range processes {
		kills.Go(p.Kill)
	}
	kills.Wait()
	at := time.Now()
	for _, p := range processes {
		held, err := h.held(ctx, p.Name)
		h.RecordFault(audit.Fault{What: "SIGKILL", At: at, Worker: p.Name, Held: held})
		if err != nil {
			return err
		}
	}
	return nil
}

// held returns the jobs that the table says an ended process holds. It first waits until the server
// has finished the process's statements: a claim on its way may still take jobs.
func (h *Harness) held(ctx context.Context, name string) ([]peer.Job, error) {
	if h.AwaitDisconnect != nil {
		if err := h.AwaitDisconnect(ctx, name); err != nil {
			return nil, err
		}
	}
	return h.Peer.Jobs(ctx, name)
}

// Freeze stops the worker in a place with SIGSTOP, and records the jobs that the table says it
// holds.
func (c *Crew) Freeze(ctx context.Context, place int) (audit.Fault, error) {
	return c.harness.Freeze(ctx, c.places[place])
}

// Freeze stops a worker with SIGSTOP, and records the jobs that the table says it holds.
func (h *Harness) Freeze(ctx context.Context, p *child.Process) (audit.Fault, error) {
	if err := p.Freeze(); err != nil {
		return audit.Fault{}, err
	}
	f := audit.Fault{What: "SIGSTOP", At: time.Now(), Worker: p.Name}
	if err := h.awaitQuiet(ctx, p.Name); err != nil {
		return f, err
	}
	var err error
	f.Held, err = h.Peer.Jobs(ctx, p.Name)
	f.Looked = time.Now()
	h.RecordFault(f)
	return f, err
}

// stopTimeout bounds how long a worker takes to stop, beyond its handlers' time.
const stopTimeout = 40 * time.Second

// Finish waits until the enqueuers have ended and no job is left, stops the workers, and audits.
func (c *Crew) Finish(ctx context.Context, enqueuers ...*child.Process) (f audit.Finding, book ledger.Book, err error) {
	if err := c.harness.Drain(ctx, enqueuers...); err != nil {
		return f, book, err
	}
	if err := c.Stop(); err != nil {
		return f, book, err
	}
	return c.harness.Audit(ctx)
}

// Stop stops all workers gracefully, at the same time.
func (c *Crew) Stop() error {
	for _, p := range c.places {
		if err := p.Terminate(); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	for _, p := range c.places {
		if err := p.Wait(stopTimeout); err != nil {
			return err
		}
	}
	return nil
}
