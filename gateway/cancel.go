package gateway

import (
	"context"
	"errors"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// cancel cancels jobs. A client that may not use all queues has to name one.
func (q *request) cancel() (any, error) {
	canceller, err := has[driver.Canceller](q.h.queue, "Canceller")
	if err != nil {
		return nil, err
	}
	var in wire.Selection
	if err := q.read(&in); err != nil {
		return nil, err
	}
	if err := queue.Selection(in).Check(driver.Cancellable()...); err != nil {
		return nil, err
	}
	if err := q.checkOneQueue(in.Queue); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	n, err := canceller.Cancel(ctx, nil, queue.Selection(in))
	if n > 0 && errors.Is(err, context.DeadlineExceeded) {
		return wire.CancelAnswer{Jobs: n, More: true}, nil
	}
	return wire.CancelAnswer{Jobs: n}, err
}
