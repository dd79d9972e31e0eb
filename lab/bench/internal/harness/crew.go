package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
)

// Crew is the worker processes of a drain.
type Crew []*child.Process

// StartWorkers starts the processes that work off the jobs of d. They wait for Begin.
func (h *Harness) StartWorkers(ctx context.Context, d Drainage) (Crew, error) {
	spec := d.Spec
	spec.Part = "work"
	spec.Concurrency = Concurrency
	var workers Crew
	for range cmp.Or(d.Workers, d.System.Workers, 1) {
		w, err := h.Start(ctx, d.System, spec)
		if err != nil {
			return workers, err
		}
		workers = append(workers, w)
	}
	return workers, nil
}

// Begin lets all workers begin.
func (c Crew) Begin() error {
	for _, w := range c {
		if err := w.Go(); err != nil {
			return err
		}
	}
	return nil
}

// Handled returns how many jobs the workers have run.
func (c Crew) Handled() int {
	var n int64
	for _, w := range c {
		n += w.Handled()
	}
	return int(n)
}

// Await waits until the workers have run n jobs. It fails when ctx or a worker ends.
func (c Crew) Await(ctx context.Context, n int) error {
	for c.Handled() < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs handled: %w", c.Handled(), n, context.Cause(ctx))
		case <-time.After(askEvery):
		}
		for _, w := range c {
			select {
			case <-w.Ended():
				_, err := w.Wait()
				return cmp.Or(err, errors.New("a worker has ended"))
			default:
			}
		}
	}
	return nil
}

// Stop stops all workers and returns their results.
func (c Crew) Stop() ([]child.Result, error) {
	results := make([]child.Result, len(c))
	var errs []error
	for i, w := range c {
		r, err := w.Stop()
		results[i] = r
		errs = append(errs, err)
	}
	return results, errors.Join(errs...)
}

func (c Crew) Kill() {
	for _, w := range c {
		w.Kill()
	}
}
