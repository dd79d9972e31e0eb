package sqlkit

import "sync"

// Sweep holds the position of Prune, which reads the table in slices, in the order of the ids. It
// is safe for concurrent use.
type Sweep struct {
	mu          sync.Mutex
	last        int64 // the last id looked at
	emptySlices int   // slices in a row that held nothing to remove
}

// maxEmptySlices is how many slices in a row that held nothing to remove end a pass. The next pass
// goes on behind them, so a pass costs little where nothing in a long table has expired.
const maxEmptySlices = 10

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
	s.emptySlices++
	if removed {
		s.emptySlices = 0
	}
	if !more {
		last = 0
	}
	s.last = last
	if goOn = more && s.emptySlices < maxEmptySlices; !goOn {
		s.emptySlices = 0
	}
	return goOn
}
