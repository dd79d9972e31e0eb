package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// handlerContext is the context of a handler that a worker runs, or of OnDead.
type handlerContext struct {
	handling.Context
	run *progressing
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

// progressing records the progress that handlers set.
type progressing struct {
	*shared
	results driver.ResultKeeper // nil if the backend keeps none
	hasNew  chan struct{}       // signals the progress loop

	mu   sync.Mutex
	jobs map[*handlerContext]bool // with progress that is not yet recorded
}

func newProgressing(s *shared) *progressing {
	results, _ := driver.As[driver.ResultKeeper](s.Backend)
	return &progressing{shared: s, results: results, hasNew: make(chan struct{}, 1)}
}

const (
	// progressInterval is how often the worker records progress.
	progressInterval = time.Second
	// progressBytes bounds the progress of one call, unless it is that of one job.
	progressBytes = 8 << 20
)

// noteProgress notes that a job has new progress.
func (p *progressing) noteProgress(c *handlerContext) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs == nil {
		p.jobs = make(map[*handlerContext]bool)
		signal(p.hasNew)
	}
	p.jobs[c] = true
}

// progressLoop records the progress of jobs about once a second while there is any, until ctx ends.
func (p *progressing) progressLoop(ctx context.Context) {
	if p.results == nil {
		return
	}
	log := p.watchCalls("progress")
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.hasNew:
		}
		if progress := p.takeProgress(); len(progress) > 0 {
			log.Report(p.keepProgress(ctx, progress))
		}
		if !upkeep.Sleep(ctx, progressInterval) {
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
func (p *progressing) keepProgress(ctx context.Context, progress []newProgress) (err error) {
	for len(progress) > 0 {
		n, size := 0, 0
		for n < len(progress) && (n == 0 || size+len(progress[n].Value) <= progressBytes) {
			size += len(progress[n].Value)
			n++
		}
		if failed := p.callProgress(ctx, progress[:n]); failed != nil {
			err = failed
			p.putBackProgress(progress[:n])
		}
		progress = progress[n:]
	}
	return err
}

// callProgress calls KeepProgress.
func (p *progressing) callProgress(ctx context.Context, part []newProgress) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	values := make([]queue.Progress, len(part))
	for i, n := range part {
		values[i] = n.Progress
	}
	return p.results.KeepProgress(ctx, values...)
}

// putBackProgress makes takeProgress return the progress of these jobs again.
func (p *progressing) putBackProgress(part []newProgress) {
	for _, n := range part {
		if result := n.of.Result(); result != nil { // else the handler has returned
			result.Mu.Lock()
			result.IsNew = true
			result.Mu.Unlock()
			p.noteProgress(n.of)
		}
	}
}

// takeProgress returns the progress that is not yet recorded.
func (p *progressing) takeProgress() (progress []newProgress) {
	p.mu.Lock()
	waiting := p.jobs
	p.jobs = nil
	p.mu.Unlock()
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
