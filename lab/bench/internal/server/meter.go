package server

import "time"

// Reading is the state of a server's meters. They only grow.
type Reading struct {
	SQL     bool          // whether WAL and Commits are known
	WAL     int64         // bytes of write-ahead log
	Commits int64         // transactions of sessions that have ended, or were idle for a while
	Timed   bool          // whether CPU is known: not for a server on another machine
	CPU     time.Duration // processor time
}
