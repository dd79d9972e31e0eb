package child

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/stats"
)

// cancel cancels jobs that run, and measures how long it takes until their handlers' contexts end.
func cancel(ctx context.Context, s *self, p peer.Peer) (Figures, error) {
	canceller, ok := p.(peer.Canceller)
	if !ok {
		return nil, fmt.Errorf("%s: cannot cancel jobs", s.System)
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	took, err := canceller.CancelRunning(ctx, s.Jobs, s.Rate, s.Lease, s.Listens)
	if err != nil {
		return nil, err
	}
	return Figures{
		"p50": milliseconds(stats.Quantile(took, 0.5)),
		"p99": milliseconds(stats.Quantile(took, 0.99)),
		"max": milliseconds(stats.Quantile(took, 1)),
	}, nil
}
