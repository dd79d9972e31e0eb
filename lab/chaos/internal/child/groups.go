package child

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// ClaimBegan begins the note of a run of an ordered job. The time at which its claim began follows,
// in microseconds since 1970.
const ClaimBegan = "claim began: "

// ordered is plain, and notes when the claim of the job began.
func ordered(ctx context.Context, s *self, run peer.Run) peer.Action {
	s.note(run, fmt.Sprint(ClaimBegan, run.Claimed.UnixMicro()))
	return plain(ctx, s, run)
}

// waiting is the handler of jobs that somebody cancels. It waits for the end of its context.
func waiting(ctx context.Context, s *self, run peer.Run) peer.Action {
	s.started(run)
	select {
	case <-ctx.Done():
		s.note(run, ContextEnded+fmt.Sprint(context.Cause(ctx)))
	case <-time.After(time.Minute):
		s.note(run, ContextLasts)
	}
	return peer.Retry
}
