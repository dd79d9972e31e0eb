package child

import (
	"context"

	"github.com/errandhq/errand/lab/bench/internal/peer"
)

// fleet is latency for workers without a connection to the database: a process that has one
// enqueues, so that the time begins with the commit and not with a gateway's answer.
func fleet(ctx context.Context, s *self, p peer.Peer) (f Figures, err error) {
	direct, err := peer.Open(ctx, peer.Config{System: s.System, DSN: s.DSN})
	if err != nil {
		return nil, err
	}
	defer closing(direct, &err)
	if err := s.begin(); err != nil {
		return nil, err
	}
	return s.measureLatency(ctx, p, direct.EnqueueOne)
}
