package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/internal/reach"
)

// ReachTimeout is how long explain.Job waits for a connection to the server, and its first answer.
const ReachTimeout = 5 * time.Second

// IdentifyInTime asks the server who it is. If that takes too long because the pool is used up, the
// error says so.
func (s *Server) IdentifyInTime(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := s.identify(ctx)
	if pool := s.Tables.DB.Stats(); errors.Is(err, context.DeadlineExceeded) && pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections {
		return &reach.Error{Err: err, Advice: "raise the limit of the pool (db.SetMaxOpenConns), or look what keeps its connections",
			Problem: fmt.Sprintf("this program's pool has no free connection, its limit is %d", pool.MaxOpenConnections)}
	}
	return err
}
