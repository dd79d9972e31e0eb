// Package clockwatch notices when a server's clock jumps, so that no lease ends early or late.
//
// Problem: leases are stored by the server's clock. If it is set forward beyond a lease, all leases
// end at once, and jobs would be reclaimed beside their handlers. If it is set back by an hour,
// leases last an hour longer. Rule: each call of Reclaim returns the server's clock, which is
// compared with this process' monotonic clock since the call before. A lease that began before a
// jump forward ends later by as much as the clock jumped. Since heartbeats begin leases anew by the
// new clock, no living worker loses a job, and the job of a dead one is reclaimed when its lease
// would have ended without the jump, however many jumps there are. The call that meets a jump
// reclaims by the time that the server's clock would have without it. A jump back takes away as
// much of the jumps forward before it. A lease that began in the future, by more than a minute, is
// of a clock that was set back: it is counted from when this process has seen the jump, in the call
// that meets it from now, or has begun. A later jump forward moves that time. If such a lease then
// begins in the past, the jump is added to its end, so that of a dead worker ends late. Bounds: a
// jump up to
// Tolerance, or up to the time that a slow call took, is not seen. A process that begins after a
// jump forward does not know of it. If a process was suspended, the server's clock seems to jump
// forward by that time: it reclaims what others held later by as much. Shown by: TestWatch;
// TestServerClockGoesForward, TestServerClockIsCorrected and TestServerClockGoesBack of the
// backends.
package clockwatch

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// Tolerance is how far the two clocks may go apart from one look to the next.
	Tolerance = time.Second
	// maxJumps is how many jumps are remembered.
	maxJumps = 8
	// never is a time, in microseconds since 1970, that no server's clock has reached: in 9999.
	never = 253_370_764_800_000_000
)

// Watch compares a server's clock with this process' monotonic clock. The zero Watch is ready. Its
// methods may be called concurrently. All times are the server's, in microseconds since 1970.
type Watch struct {
	mu    sync.Mutex
	last  *reading // nil before the first one
	jumps []Jump   // forward, the last maxJumps; never changed in place
	since int64
}

// reading is what the server's clock showed at a time between begun and ended.
type reading struct {
	begun, ended time.Time
	clock        int64
}

// Jump says that leases that began at UpTo or before end later by By, in microseconds.
type Jump struct{ UpTo, By int64 }

// Look is what a call of Reclaim goes by.
type Look struct {
	// Latest is the latest time that the server's clock can show at Begin if it has not jumped.
	Latest int64
	// Earliest is the earliest time that it can show if it has not jumped, or 0. If it shows less,
	// leases that began in the future count from now, and not from Since.
	Earliest int64
	// Jumps are the known jumps forward.
	Jumps []Jump
	// Since is the time from which leases count that began in the future.
	Since int64

	begun time.Time
	last  *reading
}

// Begin begins a call that reads the server's clock.
func (w *Watch) Begin() Look {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := Look{Latest: never, Jumps: w.jumps, Since: w.since, begun: time.Now(), last: w.last}
	if w.last == nil {
		l.Since = never
	} else {
		l.Latest = w.last.clock + l.begun.Sub(w.last.begun).Microseconds()
		l.Earliest = w.last.clock + (l.begun.Sub(w.last.ended) - Tolerance).Microseconds()
	}
	return l
}

// Note notes the clock that a call has read. It returns by what to reclaim now, and by how much the
// clock has jumped since the reading before, for [Log], or 0. If a concurrent call was faster, Note
// leaves this reading out. The next reading meets a jump between the two, which next has already.
func (w *Watch) Note(l Look, clock int64) (next Look, jump time.Duration) {
	isNoted, jump := w.note(l, clock)
	next = w.Begin()
	if !isNoted && clock > l.Latest && slices.Equal(next.Jumps, l.Jumps) {
		next.Jumps = append(slices.Clone(next.Jumps), Jump{UpTo: l.Latest, By: clock - l.Latest})
	}
	return next, jump
}

// Log logs a jump, unless it is 0. log may be nil, for [slog.Default].
func Log(log *slog.Logger, jump time.Duration, attrs ...any) {
	text := "errand: the database's clock went forward, or this process was suspended: jobs that ran before are reclaimed later by as much"
	if jump < 0 {
		text = "errand: the database's clock went back: leases of before count from now"
	}
	if jump != 0 {
		cmp.Or(log, slog.Default()).Warn(text, append([]any{"by", jump.Abs()}, attrs...)...)
	}
}

// note reports whether it has noted the reading, and returns by how much the clock has jumped since
// the reading before, or 0.
func (w *Watch) note(l Look, clock int64) (isNoted bool, jump time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last != l.last {
		return false, 0
	}
	r := &reading{l.begun, time.Now(), clock}
	before := w.last
	w.last = r
	if before == nil {
		w.since = clock
		return true, 0
	}
	least, most := r.begun.Sub(before.ended), r.ended.Sub(before.begun)
	passed := time.Duration(clock-before.clock) * time.Microsecond
	switch {
	case passed > most+Tolerance:
		// What began before the jump may have begun in the future, but not after the time that the
		// clock showed next.
		upTo := max(before.clock+most.Microseconds(), clock-most.Microseconds())
		j := Jump{UpTo: upTo, By: (passed - least).Microseconds()}
		w.jumps = append(slices.Clone(w.jumps[max(0, len(w.jumps)+1-maxJumps):]), j)
		w.since += j.By
		return true, passed - most
	case passed < least-Tolerance:
		w.since = clock
		w.jumps = jumpsAfter(w.jumps, clock-most.Microseconds(), (least - passed).Microseconds())
		return true, passed - least
	}
	return true, 0
}

// jumpsAfter returns what is left of jumps after the clock went back to a time, by so many
// microseconds. They come off the last jump, and then off those before it. What begins from then on
// is after all of them.
func jumpsAfter(jumps []Jump, clock, by int64) []Jump {
	left := slices.Clone(jumps)
	for i := range slices.Backward(left) {
		off := min(by, left[i].By)
		left[i] = Jump{UpTo: min(left[i].UpTo, clock-1), By: left[i].By - off}
		by -= off
	}
	return slices.DeleteFunc(left, func(j Jump) bool { return j.By == 0 })
}

// JSON returns the Jumps as a JSON array of pairs: UpTo and By of each.
func (l Look) JSON() string {
	pairs := make([]string, len(l.Jumps))
	for i, j := range l.Jumps {
		pairs[i] = fmt.Sprintf("[%d,%d]", j.UpTo, j.By)
	}
	return "[" + strings.Join(pairs, ",") + "]"
}

// Arrays returns the Jumps as the texts of two PostgreSQL arrays of numbers: UpTo and By of each.
func (l Look) Arrays() (upTo, by string) {
	ends, sizes := make([]string, len(l.Jumps)), make([]string, len(l.Jumps))
	for i, j := range l.Jumps {
		ends[i], sizes[i] = strconv.FormatInt(j.UpTo, 10), strconv.FormatInt(j.By, 10)
	}
	return "{" + strings.Join(ends, ",") + "}", "{" + strings.Join(sizes, ",") + "}"
}
