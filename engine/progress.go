package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/queue"
)

// handlerContext is the context of a handler that a worker runs, or of OnDead.
type handlerContext struct {
	handling.Context
	run *run
	job atomic.Pointer[queue.Job] // nil for OnDead, and once the handler has returned
}

// Refusal implements [handling.Run].
func (c *handlerContext) Refusal() string {
	switch {
	case c.job.Load() == nil:
		return "no single job is being handled in this context"
	case c.run.results == nil:
		return fmt.Sprintf("the backend %T keeps no results", c.run.Backend)
	}
	return ""
}

// Progressed implements [handling.Run].
func (c *handlerContext) Progressed() { c.run.noteProgress(c) }

// forget drops the job and what its handler has set, once the handler has returned.
func (c *handlerContext) forget() {
	c.job.Store(nil)
	c.Forget()
}

const (
	// progressInterval is how often the worker records progress.
	progressInterval = time.Second
	// progressBytes bounds the progress of one call, unless it is that of one job.
	progressBytes = 8 << 20
)

// noteProgress notes that a job has new progress.
func (r *run) noteProgress(c *handlerContext) {
	r.progressMu.Lock()
	defer r.progressMu.Unlock()
	if r.progress == nil {
		r.progress = make(map[*handlerContext]bool)
		signal(r.hasProgress)
	}
	r.progress[c] = true
}

// progressLoop records the progress of jobs about once a second while there is any, until ctx ends.
func (r *run) progressLoop(ctx context.Context) {
	if r.results == nil {
		return
	}
	log := r.watchCalls("progress")
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hasProgress:
		}
		if progress := r.takeProgress(); len(progress) > 0 {
			log.report(r.keepProgress(ctx, progress))
		}
		if !sleep(ctx, progressInterval) {
			return
		}
	}
}

// newProgress is progress that is not yet recorded.
type newProgress struct {
	queue.Progress
	of *handlerContext
}

// keepProgress records progress in parts, each with a time of its own. It keeps what could not be
// recorded for the next time, unless the handler sets newer progress. The error is the last one.
func (r *run) keepProgress(ctx context.Context, progress []newProgress) (err error) {
	for len(progress) > 0 {
		n, size := 0, 0
		for n < len(progress) && (n == 0 || size+len(progress[n].Value) <= progressBytes) {
			size += len(progress[n].Value)
			n++
		}
		if failed := r.callProgress(ctx, progress[:n]); failed != nil {
			err = failed
			r.putBackProgress(progress[:n])
		}
		progress = progress[n:]
	}
	return err
}

// callProgress calls KeepProgress.
func (r *run) callProgress(ctx context.Context, part []newProgress) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	values := make([]queue.Progress, len(part))
	for i, p := range part {
		values[i] = p.Progress
	}
	return r.results.KeepProgress(ctx, values...)
}

// putBackProgress makes takeProgress return the progress of these jobs again.
func (r *run) putBackProgress(part []newProgress) {
	for _, p := range part {
		if result := p.of.Result(); result != nil { // else the handler has returned
			result.Mu.Lock()
			result.IsNew = true
			result.Mu.Unlock()
			r.noteProgress(p.of)
		}
	}
}

// takeProgress returns the progress that is not yet recorded.
func (r *run) takeProgress() (progress []newProgress) {
	r.progressMu.Lock()
	waiting := r.progress
	r.progress = nil
	r.progressMu.Unlock()
	for c := range waiting {
		job, result := c.job.Load(), c.Result()
		if job == nil || result == nil {
			continue // the handler has returned
		}
		result.Mu.Lock()
		progress = append(progress, newProgress{queue.Progress{Job: job, Value: result.Progress}, c})
		result.IsNew = false
		result.Mu.Unlock()
	}
	return progress
}
