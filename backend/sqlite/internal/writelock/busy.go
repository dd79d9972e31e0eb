package writelock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/backend/sqlite/internal/sqliteerr"
)

// Problem: SQLite wakes no waiter when its lock becomes free. Its own wait, busy_timeout, sleeps
// for longer and longer, and does not end with a context.
// Rule: try again after a random pause of at most 1 ms, which doubles with every second try.
// Bounds: a pause is under 16 ms, and the wait ends with the context or the timeout.
// Shown by: TestWaitEndsWithContext, TestLockTimeout.

// RetryBusy runs f again while another connection has the lock, until ctx ends or timeout is over.
// A failed f must leave nothing behind.
func RetryBusy(ctx context.Context, timeout time.Duration, f func() error) error {
	return retryBusy(ctx, time.Now(), timeout, f)
}

// retryBusy is RetryBusy for a call that has waited since start. It runs f at least once.
func retryBusy(ctx context.Context, start time.Time, timeout time.Duration, f func() error) error {
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := f()
		if err == nil || !sqliteerr.IsBusy(err) {
			return err
		}
		if time.Since(start) > timeout {
			return fmt.Errorf("another transaction has had the write lock for %v: %w", timeout, err)
		}
		// If the pauses grew without a bound, other writers would always be first. Without pauses
		// no transaction of the application would get the lock.
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rand.Int64N(int64(time.Millisecond) << min(try/2, 4)))):
		}
	}
}
