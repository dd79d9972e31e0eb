// Package queuetest helps to test: [New] is a queue in memory for the tests of
// programs that use errand, [WantJob] and [WantNoJob] say what should have been
// enqueued, and [Run] is the suite of cases that every
// [queue.Queue] passes, for those who write a backend.
package queuetest
