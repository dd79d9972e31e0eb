package audit

import (
	"slices"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/ledger"
)

// Rate is how many effects a second there were from one time to another.
func Rate(effects []ledger.Entry, from, to time.Time) float64 {
	if !from.Before(to) {
		return 0
	}
	return float64(indexAt(effects, to)-indexAt(effects, from)) / to.Sub(from).Seconds()
}

// indexAt is how many effects there were before a time.
func indexAt(effects []ledger.Entry, at time.Time) int {
	i, _ := slices.BinarySearchFunc(effects, at, func(e ledger.Entry, at time.Time) int { return e.At.Compare(at) })
	return i
}

const (
	// recovered is the share of the rate before that counts as back.
	recovered = 0.8
	// window is what a rate is taken over, and step between two looks at it.
	window = time.Second
	step   = 50 * time.Millisecond
)

// Recovery is how long after the last fault the rate was back: the first second in
// which four fifths of the usual rate were reached begins then. Where that never was so
// it is until the last effect, when all was done.
func Recovery(effects []ledger.Entry, usual float64, last time.Time) time.Duration {
	if len(effects) == 0 {
		return 0
	}
	end := effects[len(effects)-1].At
	for at := last; at.Add(window).Before(end); at = at.Add(step) {
		if Rate(effects, at, at.Add(window)) >= recovered*usual {
			return at.Sub(last)
		}
	}
	return max(end.Sub(last), 0)
}
