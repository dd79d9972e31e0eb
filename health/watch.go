package health

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// patience is for how long a worker's claims may fail before its program is not ready: a single
// failure is no reason.
const patience = 15 * time.Second

// Watched is the backend of a worker that remembers how its claims went. Each call goes on to the
// backend that [Watch] was given, whose capabilities [driver.As] finds. It may be used
// concurrently.
type Watched struct {
	next queue.Consumer

	mu      sync.Mutex
	last    time.Time // when a claim last succeeded; zero means never
	failing time.Time // when the first claim failed since; zero means none
	err     error     // of the last claim that failed since
}

// Watch returns a backend for [engine.Worker] whose claims a [Readiness] looks at:
//
//	watched := health.Watch(q)
//	mux.Handle("/ready", health.Ready(q, watched))
//	err := engine.Worker{Backend: watched, Handler: handler}.Run(ctx)
//
// The program is ready once the first claim has succeeded, and until claims have failed for 15 s. A
// worker that does not claim is ready: its slots may be full, or all its kinds paused. Give each
// worker a Watched of its own, because a claim of any of its workers counts for all.
func Watch(next queue.Consumer) *Watched { return &Watched{next: next} }

// LastClaim returns when a claim last succeeded, or the zero time. err is the error of the last
// claim if that has failed.
func (w *Watched) LastClaim() (at time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.err
}

// Claim implements [queue.Consumer].
func (w *Watched) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	jobs, err := w.next.Claim(ctx, req)
	w.note(err)
	return jobs, err
}

// Extend implements [queue.Consumer].
func (w *Watched) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	return w.next.Extend(ctx, lease, jobs...)
}

// Settle implements [queue.Consumer].
func (w *Watched) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	return w.next.Settle(ctx, db, outcomes...)
}

// Unwrap returns the backend, for [driver.As].
func (w *Watched) Unwrap() queue.Consumer { return w.next }

// note records how a claim went. One that its caller gave up says nothing, and one that could not
// read the payload of a job in time has worked.
func (w *Watched) note(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, isSlow := errors.AsType[*driver.SlowError](err); err == nil || isSlow {
		w.last, w.failing, w.err = now, time.Time{}, nil
		return
	}
	if w.failing.IsZero() {
		w.failing = now
	}
	w.err = err
}

// problem returns why the worker is not ready, or "".
func (w *Watched) problem(now time.Time) (reason string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.last.IsZero():
		return "the worker has not claimed yet", w.err
	case !w.failing.IsZero() && now.Sub(w.failing) >= patience:
		return "the worker's claims fail", w.err
	}
	return "", nil
}
