package postgres

import (
	"testing"
	"time"
)

// TestRegistrationsOfRestart: a process that has ended does not deregister a worker of the same
// name in the process that follows it.
func TestRegistrationsOfRestart(t *testing.T) {
	var before, after sleepers
	now := time.Now()
	for range 100 {
		before.begin("w", now)
	}
	upTo, _ := before.noteWoken([]string{"w"}, now)
	if number := after.begin("w", now.Add(time.Millisecond)); number <= upTo {
		t.Errorf("the next process registers with number %d, and the last one deregisters up to %d", number, upTo)
	}
}
