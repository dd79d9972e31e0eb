package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// workTimeout bounds work; the examples take a second or two.
const workTimeout = 30 * time.Second

// work runs the worker until n jobs are completed, and returns when the worker has stopped. It
// returns an error if that takes longer than workTimeout, or if ctx ends first. A program of your
// own calls worker.Run(ctx), which runs until ctx ends.
func work(ctx context.Context, worker engine.Worker, n int) error {
	ctx, stop := context.WithTimeout(ctx, workTimeout)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	err := awaitCompleted(ctx, worker.Backend, n)
	stop()
	return errors.Join(err, <-ended)
}

func awaitCompleted(ctx context.Context, backend queue.Consumer, n int) error {
	inspector, ok := driver.As[driver.Inspector](backend)
	if !ok {
		return fmt.Errorf("demo: %T is not an Inspector", backend)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for seen := 0; ; {
		done, err := countCompleted(ctx, inspector)
		if err != nil {
			return fmt.Errorf("demo: %d of %d jobs completed: %w", seen, n, err)
		}
		if seen = done; seen >= n {
			return nil
		}
		select {
		case <-ctx.Done(): // countCompleted returns the error
		case <-tick.C:
		}
	}
}

func countCompleted(ctx context.Context, inspector driver.Inspector) (n int, err error) {
	counts, err := inspector.Counts(ctx)
	for _, c := range counts {
		if c.Status == queue.StatusCompleted {
			n += int(c.Jobs)
		}
	}
	return n, err
}
