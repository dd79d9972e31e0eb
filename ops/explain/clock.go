package explain

import (
	"context"
	"time"
)

// readServedClock sets the time to that of the first server of Redis that answers.
func readServedClock(ctx context.Context, q *inquiry) error {
	if q.Served == nil {
		return nil
	}
	servers, err := q.Served.Servers(ctx)
	if err != nil {
		return err
	}
	for _, s := range servers {
		if s.Err == nil {
			q.at = time.Now().Add(s.Ahead)
			return nil
		}
	}
	return nil
}
