package queue

import "testing"

// TestTakeNothing: what take returns is not what runs are counted in, also if there were none yet.
func TestTakeNothing(t *testing.T) {
	counted := tallies{all: make(map[tallyKey]*tally)}
	taken := counted.take()
	counted.addRun(1, &Job{Queue: "q", Kind: "k"}, Done, 0, 0)
	if len(taken) != 0 {
		t.Error("a run is counted in what was taken before it")
	}
	if len(counted.take()) != 1 || len(counted.take()) != 0 {
		t.Error("a run is not taken, or twice")
	}
}
