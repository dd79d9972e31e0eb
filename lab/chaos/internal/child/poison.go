package child

import (
	"context"
	"os"
	"syscall"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// poisoned is the handler of scenario 6: a poison job ends its process, and with it
// whatever else runs there, as soon as its start is on record; the others are plain.
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
