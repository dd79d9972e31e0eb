package sqlkit

import "sync"

// Sweep is how far Prune has come on its way through the table, slice by slice in the order of the
// ids. It is safe for concurrent use.
type Sweep struct {
	mu     sync.Mutex
	last   int64 // the last id looked at
	barren int   // slices in a row that held nothing to remove
}

// maxBarren is how many slices in a row that held nothing to remove end a pass. The next pass goes
// on behind them, so a pass costs little where nothing in a long table has expired.
const maxBarren = 10

// Next returns the id behind which the next slice begins.
func (s *Sweep) Next() (from int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Advance records a slice that ended at the id last: whether more follows, and whether Prune
// removed something. It reports whether the pass goes on.
func (s *Sweep) Advance(last int64, more, removed bool) (goOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.barren++
	if removed {
		s.barren = 0
	}
	if !more {
		last = 0
	}
	s.last = last
	if goOn = more && s.barren < maxBarren; !goOn {
		s.barren = 0
	}
	return goOn
}
