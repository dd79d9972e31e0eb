package harness

import (
	"context"
	"errors"
	"testing"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/peer"
)

// counted is a peer that only has a census.
type counted struct {
	peer.Peer
	census peer.Census
	err    error
}

func (c counted) Census(context.Context) (peer.Census, error) { return c.census, c.err }

// TestDrainIsChecked: a drain fails if a job did not run, ran twice, or was not settled.
func TestDrainIsChecked(t *testing.T) {
	keeps, deletes := peer.System{Name: "keeps", Keeps: true}, peer.System{Name: "deletes"}
	halves := func(handled, sum int64) []child.Result {
		return []child.Result{{Handled: handled / 2, Sum: sum / 2}, {Handled: handled - handled/2, Sum: sum - sum/2}}
	}
	all := halves(10, 45) // the numbers 0 to 9
	for name, c := range map[string]struct {
		system  peer.System
		results []child.Result
		left    int
		census  peer.Census
		err     error
		good    bool
	}{
		"kept":                      {keeps, all, 0, peer.Census{Completed: 10}, nil, true},
		"deleted":                   {deletes, all, 0, peer.Census{}, nil, true},
		"one job ran too often":     {keeps, halves(11, 45), 0, peer.Census{Completed: 10}, nil, false},
		"one job for another":       {keeps, halves(10, 46), 0, peer.Census{Completed: 10}, nil, false},
		"one job left":              {keeps, all, 0, peer.Census{Unsettled: 1, Completed: 9}, nil, false},
		"one job failed":            {keeps, all, 0, peer.Census{Completed: 10, Failed: 1}, nil, false},
		"one row missing":           {keeps, all, 0, peer.Census{Completed: 9}, nil, false},
		"one row that should be no": {deletes, all, 0, peer.Census{Completed: 1}, nil, false},
		"those that are left":       {keeps, all, 5, peer.Census{Unsettled: 5, Completed: 10}, nil, true},
		"one of those has run":      {keeps, all, 5, peer.Census{Unsettled: 4, Completed: 11}, nil, false},
		"no census":                 {keeps, all, 0, peer.Census{Completed: 10}, errors.New("gone"), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkDrain(t.Context(), counted{census: c.census, err: c.err}, c.system, 10, c.left, c.results)
			if (err == nil) != c.good {
				t.Errorf("got %v, want it to be good: %v", err, c.good)
			}
		})
	}
}
