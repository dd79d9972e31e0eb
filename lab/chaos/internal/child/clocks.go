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
	// ClockSays precedes the time by a process's own clock, if that is not the machine's.
	ClockSays = "clock: "
	// Asked is noted before jobs are enqueued. The note has the first job's number, and for an
	// attempt how many they are.
	Asked = "asked for"
	// Erred is noted when a run fails and will be retried.
	Erred = "failed"
)

// noteClock notes the time by this process's clock, if that is not the machine's.
func (s *self) noteClock() {
	if _, shifted := os.LookupEnv(clock.Variable); shifted {
		s.note(peer.Run{}, ClockSays+time.Now().Format(time.RFC3339Nano))
	}
}

// Later says which jobs of an enqueuer are due later: every third one, by a delay between Least and
// Most. Zero means none.
type Later struct {
	Least time.Duration `json:"least"`
	Most  time.Duration `json:"most"`
}

// Delay returns the delay of a job.
func (l Later) Delay(runSeed uint64, number int) time.Duration {
	if l.Most == 0 || number%3 > 0 {
		return 0
	}
	return seed.Between(seed.Source(runSeed, "delay", number), l.Least, l.Most)
}

// enqueueLater makes one call, and notes it before.
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

// LongRun reports whether a job's handler takes its whole time in scenario 16. Otherwise it takes a
// twentieth.
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
