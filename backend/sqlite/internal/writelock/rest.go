package writelock

import (
	"sync/atomic"
	"time"
)

// Problem: the application's own transactions do not call Acquire. They wait with SQLite's
// busy_timeout, which tries after 1, 2, 5 ms and so on up to 100 ms, and rarely meets the moment
// between two writers of this process.
// Rule: after a writer, the process leaves the lock alone for half as long as it had the lock, if
// the application may want it. After a transaction as long as a handler, no process that takes
// turns writes for an eighth of that transaction's time.
// Bounds: a rest is at most 100 ms. There is no rest if no writer of this process had to wait for
// SQLite's lock in the last second and no other connection of the pool is in use.
// Shown by: BenchmarkCallersTransaction, TestCallersTransactionsGetTheirTurn; TestTxLeavesRoom.

const (
	longestRest = 100 * time.Millisecond // SQLite tries at least this often
	longShare   = 8                      // the rest after a long transaction is one in so many parts
	remembered  = time.Second            // how long after a wait for SQLite's lock others may still want it
)

// rests remembers whether the application or another process may want the lock.
type rests struct {
	met atomic.Int64 // when a writer last had to wait for SQLite's lock, as UnixNano
}

// after returns how long the process leaves the lock alone after it had it for held.
func (r *rests) after(held time.Duration, tries int, appActive bool) time.Duration {
	if tries > 1 {
		r.met.Store(time.Now().UnixNano())
	}
	if !appActive && time.Now().UnixNano()-r.met.Load() >= int64(remembered) {
		return 0
	}
	return min(held/2, longestRest)
}

// restAfterLong returns how long no process that takes turns writes after a long transaction.
func restAfterLong(held time.Duration) time.Duration { return min(held/longShare, longestRest) }
