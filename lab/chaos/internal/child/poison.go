package child

import (
	"context"
	"os"
	"syscall"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// poisoned is the handler of scenario 6. A poison job records its start and then kills its process,
// with all jobs that run there. The others are plain.
func poisoned(ctx context.Context, s *self, run peer.Run) peer.Action {
	if !run.Poison {
		return plain(ctx, s, run)
	}
	s.started(run)
	killSelf()
	return peer.Done
}

// killSelf does not return.
func killSelf() {
	exitOnError(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}
