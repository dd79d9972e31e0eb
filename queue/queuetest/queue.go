package queuetest

import "github.com/errandhq/errand/backend/memory"

// The queue in memory, as tests name it.
type (
	// Queue is a [memory.Queue].
	Queue = memory.Queue
	// Options are [memory.Options].
	Options = memory.Options
	// Tx is a [memory.Tx].
	Tx = memory.Tx
)

// New returns an empty queue in memory: [memory.New].
func New(o Options) *Queue { return memory.New(o) }
