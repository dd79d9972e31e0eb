package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/queue"
)

// figure is what was measured.
type figure struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	About string  `json:"about"`
}

// text returns the value with as many digits as mean something.
func (f figure) text() string {
	digits := 0
	switch {
	case f.Value < 1:
		digits = 3
	case f.Value < 100:
		digits = 1
	}
	return strconv.FormatFloat(f.Value, 'f', digits, 64)
}

const (
	benchKind = "bench"
	// callTime is for how long single jobs are enqueued.
	callTime = 3 * time.Second
	// wakeUps is how many jobs an idle worker is woken for, and wakeTime for how long at most. Behind
	// a pooler that does not let it listen, it finds a job only when it polls.
	wakeUps  = 100
	wakeTime = 5 * time.Second
	// roundTrips is how often the server is asked for nothing.
	roundTrips = 200
)

// measure measures one thing after the other, and returns the figures.
func (a *app) measure(ctx context.Context, r *room, o benchOptions) ([]figure, error) {
	var figures []figure
	waiting := 0 // jobs
	for _, step := range []func() ([]figure, error){
		func() ([]figure, error) { return measureRoundTrip(ctx, r.db) },
		func() ([]figure, error) { return a.measureLatency(ctx, r.queue) },
		func() (list []figure, err error) {
			list, waiting, err = a.measureCalls(ctx, r.queue, o.connections)
			return list, err
		},
		func() ([]figure, error) { waiting += o.jobs; return a.measureBatches(ctx, r.queue, o.jobs) },
		func() ([]figure, error) { return a.measureDrain(ctx, r.queue, waiting) },
	} {
		list, err := step()
		if err != nil {
			return nil, err
		}
		figures = append(figures, list...)
	}
	return figures, nil
}

// measureRoundTrip measures how long the shortest statement takes.
func measureRoundTrip(ctx context.Context, db *sql.DB) ([]figure, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var took []time.Duration
	for range roundTrips {
		began := time.Now()
		if _, err := conn.ExecContext(ctx, `SELECT 1`); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return []figure{{"round trip", percentile(took, 50), "ms", fmt.Sprintf("SELECT 1, median of %d", roundTrips)}}, nil
}

// measureCalls enqueues single jobs, from several callers at once. It returns how many.
func (a *app) measureCalls(ctx context.Context, q queue.Queue, callers int) (list []figure, n int, err error) {
	bar := a.progress("single jobs", 0)
	defer bar.Close()
	took := make([][]time.Duration, callers)
	errs := make([]error, callers)
	began := time.Now()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for time.Since(began) < callTime && errs[i] == nil {
				from := time.Now()
				errs[i] = q.Enqueue(ctx, nil, &queue.Job{Kind: benchKind})
				took[i] = append(took[i], time.Since(from))
				bar.Add(1)
			}
		})
	}
	all.Wait()
	lasted := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return nil, 0, err
	}
	calls := slices.Concat(took...)
	return []figure{
		{"enqueue one by one", float64(len(calls)) / lasted.Seconds(), "jobs/s", fmt.Sprintf("%d callers, each waits for its commit", callers)},
		{"one call, p50", percentile(calls, 50), "ms", "the same calls"},
		{"one call, p99", percentile(calls, 99), "ms", "the same calls"},
	}, len(calls), nil
}

// measureBatches enqueues n jobs, many a call.
func (a *app) measureBatches(ctx context.Context, q queue.Queue, n int) ([]figure, error) {
	bar := a.progress("batches", n)
	defer bar.Close()
	began := time.Now()
	for left := n; left > 0; left -= batch {
		jobs := make([]*queue.Job, min(batch, left))
		for i := range jobs {
			jobs[i] = &queue.Job{Kind: benchKind}
		}
		if err := q.Enqueue(ctx, nil, jobs...); err != nil {
			return nil, err
		}
		bar.Add(len(jobs))
	}
	return []figure{{"enqueue in batches", float64(n) / time.Since(began).Seconds(), "jobs/s", fmt.Sprintf("one caller, %d jobs a call", batch)}}, nil
}

// measureDrain runs n jobs that wait, with handlers that do nothing.
func (a *app) measureDrain(ctx context.Context, q queue.Queue, n int) ([]figure, error) {
	bar := a.progress("drain", n)
	defer bar.Close()
	var done atomic.Int64
	all := make(chan struct{})
	began := time.Now()
	ended, stop := a.work(ctx, q, func(context.Context, *queue.Job) error { return nil }, func(e queue.Event) {
		if e.Type == queue.EventCompleted {
			bar.Add(1)
			if done.Add(1) == int64(n) {
				close(all)
			}
		}
	})
	select {
	case <-all:
	case <-ended:
	}
	lasted := time.Since(began)
	if err := errors.Join(ctx.Err(), stop()); err != nil {
		return nil, err
	}
	return []figure{{"drain", float64(n) / lasted.Seconds(), "jobs/s", fmt.Sprintf("one worker, 10 handlers that do nothing, %d jobs, until recorded as completed", n)}}, nil
}

// measureLatency enqueues jobs for an idle worker, and measures until their handlers run.
func (a *app) measureLatency(ctx context.Context, q queue.Queue) ([]figure, error) {
	bar := a.progress("wake-ups", wakeUps)
	defer bar.Close()
	started := make(chan time.Time, 1)
	ended, stop := a.work(ctx, q, func(context.Context, *queue.Job) error { started <- time.Now(); return nil }, nil)
	var took []time.Duration
	for first := time.Now(); len(took) < wakeUps && time.Since(first) < wakeTime; bar.Add(1) {
		time.Sleep(10*time.Millisecond + rand.N(20*time.Millisecond)) // the worker falls asleep
		began := time.Now()
		if err := q.Enqueue(ctx, nil, &queue.Job{Kind: benchKind}); err != nil {
			return nil, errors.Join(err, stop())
		}
		select {
		case at := <-started:
			took = append(took, at.Sub(began))
		case <-ended:
			return nil, errors.Join(ctx.Err(), stop())
		}
	}
	about := fmt.Sprintf("%d jobs, one at a time, for a worker that sleeps", len(took))
	return []figure{
		{"from Enqueue to handler, p50", percentile(took, 50), "ms", about},
		{"from Enqueue to handler, p99", percentile(took, 99), "ms", about},
	}, stop()
}

// work starts a worker. ended is closed when the worker has ended, also by ctx. stop ends it, and
// returns its error.
func (a *app) work(ctx context.Context, q queue.Queue, handle queue.HandlerFunc, observe func(queue.Event)) (ended <-chan struct{}, stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		w := queue.Worker{Backend: q, Handler: handle, Observe: observe, Logger: slog.New(slog.NewTextHandler(a.err, nil))}
		err = w.Run(ctx)
	}()
	return done, func() error { cancel(); <-done; return err }
}

// percentile returns the p-th percentile of durations, in milliseconds. It sorts them.
func percentile(list []time.Duration, p int) float64 {
	slices.Sort(list)
	return float64(list[(len(list)-1)*p/100]) / float64(time.Millisecond)
}
