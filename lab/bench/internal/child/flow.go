package child

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/peer"
)

// flowTick is the pause between two enqueues of flow. A batch is what became due in the pause.
const flowTick = 10 * time.Millisecond

// flow enqueues Rate jobs a second for Duration. The number of a job is the time of its enqueue in
// nanoseconds since 1970. So its worker, on the same machine, knows how late it is.
func flow(ctx context.Context, s *self, p peer.Peer) (Figures, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	from := time.Now()
	sent := 0
	for now := from; now.Sub(from) < s.Duration && ctx.Err() == nil; now = time.Now() {
		due := int(now.Sub(from).Seconds()*float64(s.Rate)) - sent
		if due <= 0 {
			time.Sleep(flowTick)
			continue
		}
		n := min(due, s.Batch)
		if err := p.Enqueue(ctx, int(now.UnixNano()), n); err != nil {
			return nil, err
		}
		sent += n
		if n == due {
			time.Sleep(flowTick)
		}
	}
	return Figures{"jobs": float64(sent), "rate": float64(sent) / time.Since(from).Seconds()}, nil
}
