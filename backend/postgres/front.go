package postgres

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// A claim walks its queues from their heads. It walks for nothing due jobs of kinds that it may not run, such as a retired one,
// and the index entries of dead rows, which stay while some transaction, anywhere in the database, could still see the rows. Where the
// server has counted so many of either that it matters, claims of the line are rationed (see ration.go): they begin at marks, one for each
// priority, the places up to which claims have looked at every job. Elsewhere every claim looks from the head.

const (
	// rowCost is about what a claim takes for each job that it returns.
	rowCost = 5 * time.Microsecond
	// slowLook is what looks take, besides their jobs, when it is worth asking the server what they walk: the last four,
	// or a tenth of the last one. It is asked at most once in probeEvery.
	slowLook   = time.Millisecond
	probeEvery = time.Second
	// manyPages is how many pages a look has to touch, besides those of the jobs that it sees, and manyForeign how many jobs of
	// other kinds it has to pass over, for claims to be rationed. Where jobs lie in the order in which they are due, a page has some
	// forty.
	manyPages   = 250
	manyForeign = 200
	// maxFronts bounds the memory that queues take which come and go.
	maxFronts = 10_000
)

// place is a place in a queue's order.
type place struct {
	priority int32
	due      time.Time // zero is before every time
	id       int64     // of those that are due at the same time
}

// headOf is the place before all jobs of a priority.
func headOf(priority int32) place { return place{priority: priority, id: math.MinInt64} }

// stretch is a part of a queue that a claim looks at.
type stretch struct {
	queue string
	from  place     // the first job is behind it
	last  int32     // the last priority
	until time.Time // the last due time; zero is none
}

// whole are the queues from their heads to their ends.
func whole(queues []string) []stretch {
	all := make([]stretch, len(queues))
	for i, name := range queues {
		all[i] = stretch{queue: name, from: headOf(math.MinInt32), last: math.MaxInt32}
	}
	return all
}

// front is what a backend knows of a line, which is the claims of the same queues and kinds.
type front struct {
	mu       sync.Mutex
	rationed bool
	probed   time.Time // when the server was last asked what looks walk
	looks    samples   // while claims are not rationed

	turn   chan struct{} // is held by a rationed claim, and guards the ration
	ration ration
}

// samples are the times of the last four looks, without what their jobs took.
type samples struct {
	took [4]time.Duration
	n    int
}

func (s *samples) add(took time.Duration, jobs int) (excess time.Duration) {
	excess = max(took-time.Duration(jobs)*rowCost, 0)
	s.took[s.n%len(s.took)] = excess
	s.n++
	return excess
}

// least is what a look takes when nothing else holds it up; 0 if there was none.
func (s *samples) least() time.Duration {
	if s.n == 0 {
		return 0
	}
	return slices.Min(s.took[:min(s.n, len(s.took))])
}

// isFull reports whether there were four.
func (s *samples) isFull() bool { return s.n >= len(s.took) }

// allTook reports whether the last four all took at least that.
func (s *samples) allTook(least time.Duration) bool { return s.isFull() && s.least() >= least }

// isRationed reports whether claims are rationed.
func (f *front) isRationed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rationed
}

// shouldProbe takes note of a look from the head, and reports whether it is worth asking the server what looks walk.
func (f *front) shouldProbe(took time.Duration, jobs int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	slow := f.looks.add(took, jobs) >= 10*slowLook || f.looks.allTook(slowLook)
	if f.rationed || !slow || time.Since(f.probed) < probeEvery {
		return false
	}
	f.probed = time.Now()
	return true
}

// begin makes claims rationed, and end lets them look from the head again. Called with the turn held.
func (f *front) begin(marks []mark) {
	f.ration = newRation(marks)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rationed = true
}

func (f *front) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rationed, f.looks = false, samples{}
	f.probed = time.Now().Add(9 * probeEvery) // a server that is slow for other reasons is not asked all the time
}

// lock waits for the turn, and unlock gives it back.
func (f *front) lock(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *front) unlock() { <-f.turn }

// stretchArrays are the statement's parameters: arrays of queues, priorities, times and ids.
func stretchArrays(all []stretch) (queues, priorities, dues, ids, lasts, untils string) {
	var name, priority, due, id, last, until array
	for _, s := range all {
		name.string(s.queue)
		priority.int(int64(s.from.priority))
		due.string(timeText(s.from.due, "-infinity"))
		id.int(s.from.id)
		last.int(int64(s.last))
		until.string(timeText(s.until, "infinity"))
	}
	return name.String(), priority.String(), due.String(), id.String(), last.String(), until.String()
}

func timeText(t time.Time, zero string) string {
	if t.IsZero() {
		return zero
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// fronts are those of a backend, shared by its workers.
type fronts struct {
	mu  sync.Mutex
	all map[line]*front
}

type line struct{ queues, kinds string }

func (s *fronts) of(req queue.ClaimRequest) *front {
	l := line{textArray(req.Queues), textArray(req.Kinds)}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.all[l]
	if f == nil {
		if s.all == nil || len(s.all) >= maxFronts {
			s.all = make(map[line]*front)
		}
		f = &front{turn: make(chan struct{}, 1)}
		s.all[l] = f
	}
	return f
}
