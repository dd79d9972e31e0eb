package child

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/plan"
	"github.com/errandhq/errand/lab/chaos/internal/system"
)

// handlers are what a worker's jobs do, by name.
var handlers = map[string]func(ctx context.Context, s *self, run system.Run) system.Verb{
	"":       plain,
	"plain":  plain,
	"burst":  burst,
	"clocks": clocks,
	"frozen": frozen,
	"inTx":   inTx,
	"poison": poisoned,
}

func work(ctx context.Context, s *self) error {
	handle, ok := handlers[s.Work.Handler]
	if !ok {
		return fmt.Errorf("no handler %q", s.Work.Handler)
	}
	gauged, end := context.WithCancel(ctx)
	var gauging sync.WaitGroup
	gauging.Go(func() { s.gauge(gauged) })
	defer gauging.Wait()
	defer end()
	w := s.Work.Worker
	w.Name = s.Name
	w.Lost = func(number, attempt int) { s.note(system.Run{Number: number, Attempt: attempt}, Lost) }
	if s.Work.Claims {
		c := recordClaims(s)
		w.Claimed = c.add
		defer c.close()
	}
	return s.system.Work(ctx, w, func(ctx context.Context, run system.Run) system.Verb { return handle(ctx, s, run) })
}

// plain takes its time, and then has an effect, as a job does that sends a mail. It
// gives up when its context ends.
func plain(ctx context.Context, s *self, run system.Run) system.Verb {
	s.started(run)
	if !s.takeTime(ctx, run) {
		return system.Retry
	}
	s.effect(run)
	return system.Done
}

// inTx does its work in the transaction that settles the job: a row of the
// application's, of which each job must come to have one.
func inTx(ctx context.Context, s *self, run system.Run) system.Verb {
	s.started(run)
	if err := run.Exec(ctx, businessSQL, run.Number, run.Attempt, s.Name); err != nil || !s.takeTime(ctx, run) {
		return system.Retry
	}
	return system.Done
}

const businessSQL = `INSERT INTO public.business (number, attempt, worker) VALUES ($1, $2, $3)`

// takeTime waits for as long as the handler of the job takes; false if ctx has ended
// before, unless the worker is to take no notice of that.
func (s *self) takeTime(ctx context.Context, run system.Run) bool {
	return s.take(ctx, plan.HandlerTime(s.Seed, run.Number, s.Work.Least, s.Work.Most))
}

// take is takeTime for so long.
func (s *self) take(ctx context.Context, d time.Duration) bool {
	if s.Work.Detached {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (s *self) started(run system.Run)           { must(s.ledger.Started(run.Number, run.Attempt)) }
func (s *self) effect(run system.Run)            { must(s.ledger.Effect(run.Number, run.Attempt)) }
func (s *self) note(run system.Run, text string) { must(s.ledger.Note(run.Number, run.Attempt, text)) }
