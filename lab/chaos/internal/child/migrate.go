package child

import "context"

// migrate installs the system, or finds that there is nothing to do, when it is told to.
func migrate(ctx context.Context, s *self) error {
	<-s.goAhead
	return s.peer.Install(ctx)
}
