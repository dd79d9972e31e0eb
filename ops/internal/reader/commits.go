package reader

import (
	"context"
	"fmt"
	"slices"

	"github.com/errandhq/errand/ops/internal/words"
)

// WaitsInCommit says for how long a commit has waited.
func WaitsInCommit(l Locker) string {
	return fmt.Sprintf("%s has waited in its commit for %v", l.session(), words.Short(words.Seconds(l.open.Float64)))
}

// WaitingCommits returns the sessions whose commits wait. A statement that has run for long and
// waits only now is not meant, so it looks twice.
func (s *Server) WaitingCommits(ctx context.Context) ([]Locker, error) {
	before, err := s.ReadLockers(ctx, "commits")
	if err != nil || len(before) == 0 {
		return nil, err
	}
	if err := pause(ctx, briefly); err != nil {
		return nil, err
	}
	now, err := s.ReadLockers(ctx, "commits")
	isNew := func(l Locker) bool { return !slices.ContainsFunc(before, l.isSame) }
	return slices.DeleteFunc(now, isNew), err
}
