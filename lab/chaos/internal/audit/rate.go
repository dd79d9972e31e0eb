package audit

import (
	"slices"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/ledger"
)

// Rate returns the effects a second between two times.
func Rate(effects []ledger.Entry, from, to time.Time) float64 {
	if !from.Before(to) {
		return 0
	}
	return float64(indexAt(effects, to)-indexAt(effects, from)) / to.Sub(from).Seconds()
}

// indexAt returns how many effects there were before a time.
func indexAt(effects []ledger.Entry, at time.Time) int {
	i, _ := slices.BinarySearchFunc(effects, at, func(e ledger.Entry, at time.Time) int { return e.At.Compare(at) })
	return i
}

const (
	// recovered is the share of the usual rate that counts as recovered.
	recovered = 0.8
	// window is the time that a rate is measured over, and step the distance of two windows.
	window = time.Second
	step   = 50 * time.Millisecond
)

// Recovery returns how long after the last fault the rate recovered: until the first second with
// four fifths of the usual rate begins. Without such a second it is the time until the last effect.
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
