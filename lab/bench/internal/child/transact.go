package child

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/stats"
)

// transact makes the application's transaction for Duration, in turns without and with an enqueue
// in it. So both kinds meet the same disk and the same load.
func transact(ctx context.Context, s *self, p peer.Peer) (Figures, error) {
	t, ok := p.(peer.Transactor)
	if !ok {
		return nil, fmt.Errorf("%s does not enqueue in the caller's transaction", s.System)
	}
	pairs := func(more func(done int) bool) (without, with []time.Duration, err error) {
		for n := 0; more(n); n++ {
			for _, enqueue := range []bool{false, true} {
				from := time.Now()
				if err := t.Transact(ctx, n, enqueue); err != nil {
					return nil, nil, err
				}
				if enqueue {
					with = append(with, time.Since(from))
				} else {
					without = append(without, time.Since(from))
				}
			}
		}
		return without, with, nil
	}
	if _, _, err := pairs(func(done int) bool { return done < WarmUp }); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	from := time.Now()
	without, with, err := pairs(func(int) bool { return time.Since(from) < s.Duration })
	if err != nil {
		return nil, err
	}
	a, b := stats.Quantile(without, 0.5), stats.Quantile(with, 0.5)
	return Figures{
		"jobs":    float64(len(with)),
		"without": microseconds(a),
		"with":    microseconds(b),
		"added":   microseconds(b - a),
	}, nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
