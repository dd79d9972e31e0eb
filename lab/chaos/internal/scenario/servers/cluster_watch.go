package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/queue"
)

const (
	ruledGroups  = 30
	ruledBacklog = 2000
)

// watch keeps a backlog of jobs in groups, and samples how many run: what the partition says.
type watch struct {
	h      *harness.Harness
	q      *redis.Backend
	ledger *ledger.Writer
	end    context.CancelFunc
	over   sync.WaitGroup
	err    error // of the ledger

	jobs                       int
	isLimited                  atomic.Bool // it samples only then
	samples, most, mostOfGroup int
}

func newWatch(ctx context.Context, h *harness.Harness, q *redis.Backend) (*watch, error) {
	w := &watch{h: h, q: q}
	var err error
	if w.ledger, err = ledger.Open(ctx, h.LedgerDSN, "watch"); err != nil {
		return nil, err
	}
	ctx, w.end = context.WithCancel(ctx)
	w.over.Go(func() {
		for ctx.Err() == nil && w.err == nil {
			w.look(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return w, nil
}

// stop ends it.
func (w *watch) stop() error {
	w.end()
	w.over.Wait()
	return errors.Join(w.err, w.ledger.Close())
}

// look takes a sample, and enqueues more jobs if few wait. While a master is away, it fails.
func (w *watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	running, _, err := w.q.Jobs(ctx, queue.Filter{Queue: queue.DefaultQueue, Status: queue.StatusRunning, NoPayload: true, Limit: 1000})
	if err != nil {
		return
	}
	if w.isLimited.Load() {
		w.sample(running)
	}
	counts, err := w.q.Counts(ctx)
	if err != nil {
		return
	}
	for _, c := range counts {
		if c.Queue == queue.DefaultQueue && c.Status == queue.StatusPending && c.Jobs >= ruledBacklog {
			return
		}
	}
	w.refill(ctx)
}

// sample counts the jobs that run.
func (w *watch) sample(running []queue.Record) {
	of := make(map[string]int)
	for _, r := range running {
		of[r.Group]++
		w.mostOfGroup = max(w.mostOfGroup, of[r.Group])
	}
	w.samples++
	w.most = max(w.most, len(running))
}

// refill enqueues jobs of all groups.
func (w *watch) refill(ctx context.Context) {
	numbers := make([]int, ruledBacklog/4)
	jobs := make([]*queue.Job, len(numbers))
	for i := range numbers {
		numbers[i] = w.jobs + i
		jobs[i] = peer.PlainJob(numbers[i])
		jobs[i].Group = fmt.Sprintf("g%02d", numbers[i]%ruledGroups)
	}
	w.jobs += len(jobs)
	if err := w.q.Enqueue(ctx, nil, jobs...); err != nil {
		w.err = w.ledger.Note(numbers[0], len(numbers), child.Refused+err.Error())
		return
	}
	w.err = w.ledger.Acked(numbers...)
}
