package child

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/clock"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
)

// The notes of scenario 16.
const (
	// ClockSays is followed by the time that a process whose clock is not the machine's takes it
	// for.
	ClockSays = "clock: "
	// Asked is of the jobs from this number on, so many as the attempt says: they are about to be
	// enqueued.
	Asked = "asked for"
	// Erred is of a run that is to be tried again.
	Erred = "failed"
)

// tellClock puts on record what time it is here, where that is not the machine's.
func (s *self) noteClock() {
	if _, shifted := os.LookupEnv(clock.Variable); shifted {
		s.note(peer.Run{}, ClockSays+time.Now().Format(time.RFC3339Nano))
	}
}

// Later says which jobs of an enqueuer are due later, and by how much: every third one, from
// the least to the most. Zero means none.
type Later struct {
	Least time.Duration `json:"least"`
	Most  time.Duration `json:"most"`
}

// Delay is a job's.
func (l Later) Delay(runSeed uint64, number int) time.Duration {
	if l.Most == 0 || number%3 > 0 {
		return 0
	}
	return seed.Between(seed.Source(runSeed, "delay", number), l.Least, l.Most)
}

// enqueueLater makes one call, and puts on record beforehand that it is about to.
func (s *self) enqueueLater(ctx context.Context, kind peer.Kind, numbers []int) error {
	later, ok := s.peer.(peer.Later)
	if !ok {
		return fmt.Errorf("%s: has no jobs that are due later", s.System)
	}
	s.note(peer.Run{Number: numbers[0], Attempt: len(numbers)}, Asked)
	return later.EnqueueLater(ctx, kind, func(number int) peer.Due {
		return peer.Due{After: s.Enqueue.Later.Delay(s.Seed, number)}
	}, numbers...)
}

// LongRun says whether a job's handler takes its time in scenario 16, instead of a twentieth of
// that.
func LongRun(number int) bool { return number%4 < 1 }

// clocks is the handler of scenario 16: every fifth job fails in its first attempt.
func clocks(ctx context.Context, s *self, run peer.Run) peer.Action {
	s.started(run)
	d := seed.HandlerTime(s.Seed, run.Number, s.Work.Least, s.Work.Most)
	if !LongRun(run.Number) {
		d /= 20
	}
	if !s.pause(ctx, d) {
		return peer.Retry
	}
	if run.Attempt == 1 && run.Number%5 == 0 {
		s.note(run, Erred)
		return peer.Retry
	}
	s.effect(run)
	return peer.Done
}
