// Package queuetest is for the tests of programs that use errand. [New] returns a queue in memory;
// [WantJob] and [WantNoJob] check what was enqueued, on any backend. [NoDatabase] gives handlers
// that need a transaction one.
package queuetest
