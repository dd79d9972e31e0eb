package child

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/stats"
)

const (
	// senders is how many enqueueing calls may run at once.
	senders = 16
	// settleDown is how long the worker rests before the warm-up and after it.
	settleDown = 500 * time.Millisecond
	// fallAsleep is how much longer each worker of many takes to fall asleep.
	fallAsleep = 4 * time.Millisecond
)

// latency works and enqueues in one process, so that one clock measures the time from the return of
// the enqueueing call, which is after its commit, to the handler. It counts as 0 if the handler
// starts before the call has returned.
func latency(ctx context.Context, s *self, p peer.Peer) (Figures, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	enqueue := p.EnqueueOne
	if s.Hold > 0 {
		holder, ok := p.(peer.Holder)
		if !ok {
			return nil, fmt.Errorf("%s: cannot hold a transaction open", s.System)
		}
		enqueue = func(ctx context.Context, number int) error { return holder.EnqueueAndHold(ctx, number, s.Hold) }
	}
	return s.measureLatency(ctx, p, enqueue)
}

// measureLatency works, and enqueues at Rate for Duration.
func (s *self) measureLatency(ctx context.Context, p peer.Peer, enqueue func(ctx context.Context, number int) error) (Figures, error) {
	log := newTimes(int(float64(s.Rate) * s.Duration.Seconds()))
	working, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() {
		worked <- p.Work(working, func(number int) {
			log.started(number)
			s.count(number)
		})
	}()
	time.Sleep(time.Duration(s.Workers) * fallAsleep)
	if err := log.send(ctx, enqueue, s.Rate); err != nil {
		return nil, err
	}
	if err := log.await(ctx, &s.handled); err != nil {
		return nil, err
	}
	stop()
	if err := <-worked; err != nil {
		return nil, err
	}
	return log.figures(), nil
}

// times records when each job was committed and when its handler was called, in nanoseconds since
// from. The jobs of the warm-up have the numbers from jobs on.
type times struct {
	from    time.Time
	jobs    int
	sent    []int64
	handled []atomic.Int64
}

func newTimes(jobs int) *times {
	return &times{from: time.Now(), jobs: jobs, sent: make([]int64, jobs), handled: make([]atomic.Int64, jobs)}
}

func (t *times) started(number int) {
	if number < t.jobs {
		t.handled[number].Store(int64(time.Since(t.from)))
	}
}

// send enqueues the warm-up, and then the jobs at an even rate.
func (t *times) send(ctx context.Context, enqueue func(ctx context.Context, number int) error, rate int) error {
	time.Sleep(settleDown)
	warm, warming := errgroup.WithContext(ctx)
	for i := range senders {
		warm.Go(func() error { return enqueue(warming, t.jobs+i) })
	}
	if err := warm.Wait(); err != nil {
		return err
	}
	time.Sleep(settleDown)

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(senders)
	begin := time.Now()
	for i := range t.jobs {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		group.Go(func() error {
			err := enqueue(ctx, i)
			t.sent[i] = int64(time.Since(t.from))
			return err
		})
	}
	return group.Wait()
}

// await waits until all jobs have been handled.
func (t *times) await(ctx context.Context, handled *atomic.Int64) error {
	all := int64(t.jobs + senders)
	for from := time.Now(); handled.Load() < all; time.Sleep(10 * time.Millisecond) {
		if time.Since(from) > stopTimeout/2 || ctx.Err() != nil {
			return fmt.Errorf("%d of %d jobs handled", handled.Load(), all)
		}
	}
	return nil
}

func (t *times) figures() Figures {
	late := make([]time.Duration, t.jobs)
	for i := range late {
		late[i] = time.Duration(max(t.handled[i].Load()-t.sent[i], 0))
	}
	return Figures{
		"p50": milliseconds(stats.Quantile(late, 0.5)),
		"p99": milliseconds(stats.Quantile(late, 0.99)),
		"max": milliseconds(stats.Quantile(late, 1)),
	}
}
