package child

import (
	"context"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/stats"
	"github.com/errandhq/errand/lab/internal/process"
)

// work runs jobs until it is told to end.
func work(ctx context.Context, s *self) (f Figures, err error) {
	var clock claimClock
	p, err := s.open(ctx, clock.ifWanted(s.TimeClaims))
	if err != nil {
		return nil, err
	}
	defer closing(p, &err)
	if s.Rehearse {
		if err := rehearse(ctx, p); err != nil {
			return nil, err
		}
	}
	var latencies stats.Histogram
	handle := s.handler(&latencies)
	if err := s.begin(); err != nil {
		return nil, err
	}
	if s.SampleEvery > 0 {
		go s.sample(ctx, &latencies)
	}
	err = p.Work(ctx, handle)
	return clock.figures(), err
}

// handler returns the handler of a job: it counts the job and takes its time.
func (s *self) handler(latencies *stats.Histogram) func(int) {
	switch {
	case s.SampleEvery > 0: // the number is the time of the enqueue
		return func(number int) {
			latencies.Add(time.Duration(time.Now().UnixNano() - int64(number)))
			s.count(number)
		}
	case s.Handler > 0:
		return func(number int) {
			time.Sleep(s.Handler)
			s.count(number)
		}
	}
	return s.count
}

// sample reports the worker's figures every SampleEvery.
func (s *self) sample(ctx context.Context, latencies *stats.Histogram) {
	tick := time.NewTicker(s.SampleEvery)
	defer tick.Stop()
	var before int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		handled := s.handled.Load()
		q := latencies.Take(0.5, 0.99)
		err := s.say("sample", Figures{
			"rate": float64(handled-before) / s.SampleEvery.Seconds(),
			"p50":  milliseconds(q[0]),
			"p99":  milliseconds(q[1]),
			"rss":  float64(process.RSS()),
		})
		if err != nil {
			return
		}
		before = handled
	}
}

// rehearsals is enough for a driver to prepare its statements, and for the server to choose their
// plans.
const rehearsals = 20

// rehearse runs a few jobs on an empty table, one at a time. The connections stay open, and with
// them the statements and their plans of that time.
func rehearse(ctx context.Context, p peer.Peer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	handled := make(chan struct{}, rehearsals)
	worked := make(chan error, 1)
	go func() { worked <- p.Work(ctx, func(int) { handled <- struct{}{} }) }()
	for range rehearsals {
		if err := p.EnqueueOne(ctx, 0); err != nil {
			return err
		}
		select {
		case <-handled:
		case err := <-worked:
			return err
		}
	}
	stop()
	return <-worked
}

// claimClock collects how long claims take.
type claimClock struct {
	mu   sync.Mutex
	took []time.Duration
}

func (c *claimClock) ifWanted(wanted bool) func(time.Duration) {
	if !wanted {
		return nil
	}
	return func(d time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.took = append(c.took, d)
	}
}

func (c *claimClock) figures() Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.took) == 0 {
		return nil
	}
	return Figures{
		"claim_p50": milliseconds(stats.Quantile(c.took, 0.5)),
		"claim_p99": milliseconds(stats.Quantile(c.took, 0.99)),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
