package child

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

// handlers are the handlers of a worker, by name.
var handlers = map[string]func(ctx context.Context, s *self, run peer.Run) peer.Action{
	"":        plain,
	"plain":   plain,
	"burst":   burst,
	"clocks":  clocks,
	"frozen":  frozen,
	"inTx":    inTx,
	"ordered": ordered,
	"poison":  poisoned,
	"silent":  silent,
	"waiting": waiting,
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
	w.Lost = func(number, attempt int) { s.note(peer.Run{Number: number, Attempt: attempt}, Lost) }
	if s.Work.Claims {
		c := recordClaims(s)
		w.Claimed = c.add
		defer c.close()
	}
	return s.workAll(ctx, w, func(ctx context.Context, run peer.Run) peer.Action { return handle(ctx, s, run) })
}

// workAll runs the workers of this process. If one fails, all end.
func (s *self) workAll(ctx context.Context, w peer.Worker, handle peer.Handler) error {
	if s.Work.Workers == 0 {
		return s.peer.Work(ctx, w, handle)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var all sync.WaitGroup
	for i := range s.Work.Workers {
		w := w
		w.Name = fmt.Sprintf("%s-%d", s.Name, i+1)
		all.Go(func() {
			if err := s.peer.Work(ctx, w, handle); err != nil {
				end(fmt.Errorf("%s: %w", w.Name, err))
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// plain takes its time and then has an effect, as a job that sends a mail. It gives up when its
// context ends.
func plain(ctx context.Context, s *self, run peer.Run) peer.Action {
	s.started(run)
	if !s.takeTime(ctx, run) {
		return peer.Retry
	}
	s.effect(run)
	return peer.Done
}

// silent leaves no trace in the ledger: the jobs of schedules have no numbers of their own.
func silent(context.Context, *self, peer.Run) peer.Action { return peer.Done }

// inTx writes a row of the application in the transaction that settles the job. Each job must get
// exactly one.
func inTx(ctx context.Context, s *self, run peer.Run) peer.Action {
	s.started(run)
	if err := run.Exec(ctx, businessSQL, run.Number, run.Attempt, s.Name); err != nil || !s.takeTime(ctx, run) {
		return peer.Retry
	}
	return peer.Done
}

const businessSQL = `INSERT INTO public.business (number, attempt, worker) VALUES ($1, $2, $3)`

// takeTime waits for the time of the job's handler. It returns false if ctx ends first, unless the
// worker is Detached.
func (s *self) takeTime(ctx context.Context, run peer.Run) bool {
	return s.pause(ctx, seed.HandlerTime(s.Seed, run.Number, s.Work.Least, s.Work.Most))
}

// pause is takeTime with a duration.
func (s *self) pause(ctx context.Context, d time.Duration) bool {
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

func (s *self) started(run peer.Run) { exitOnError(s.ledger.Started(run.Number, run.Attempt)) }
func (s *self) effect(run peer.Run)  { exitOnError(s.ledger.Effect(run.Number, run.Attempt)) }
func (s *self) note(run peer.Run, text string) {
	exitOnError(s.ledger.Note(run.Number, run.Attempt, text))
}
