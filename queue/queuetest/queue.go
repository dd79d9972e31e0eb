package queuetest

import "github.com/errandhq/errand/backend/memory"

// The queue in memory, under the names that tests use.
type (
	// Queue is a queue in memory: a [memory.Queue].
	Queue = memory.Queue
	// Options configure [New]: [memory.Options].
	Options = memory.Options
	// Tx is an open transaction: a [memory.Tx].
	Tx = memory.Tx
)

// New returns an empty queue in memory, as [memory.New] does. The zero Options work.
func New(o Options) *Queue { return memory.New(o) }
