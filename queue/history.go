package queue

import (
	"time"
)

// Failure is a run of a job that failed, as [Record].History keeps it. A run that was released, or
// snoozed, has not failed.
type Failure struct {
	// At is when the failure was recorded, by the backend's clock.
	At time.Time `json:"at"`
	// Attempt is the number of the run, from 1. It begins again with 1 after a redrive.
	Attempt int `json:"attempt"`
	// Redrives is how often the job had been redriven before the run.
	Redrives int `json:"redrives,omitempty"`
	// Worker is the name of the job's holder. For a job of ClaimTx it is "transaction".
	Worker string `json:"worker,omitempty"`
	// Error is the error text, cut to [driver.MaxHistoryText] characters.
	Error string `json:"error,omitempty"`
	// Stack is the top of the stack of a panic, as [driver.StackText] returns it; "" for other errors.
	Stack string `json:"stack,omitempty"`
	// Took is how long the run took: from the claim until At. It includes the wait for a slot, and,
	// after a crash, the time until the job was reclaimed.
	Took time.Duration `json:"took_ns"`
}
