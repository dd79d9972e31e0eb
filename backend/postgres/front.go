package postgres

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// A claim walks its queues from their heads. Jobs that have been claimed are gone from
// there, but while some transaction, anywhere in the database, could still see them,
// their index entries stay, and each claim walks them all. Where the server has
// counted so many that it matters, claims begin at the front instead: the
// place up to which claims have come. A job that is due before the front, such as a more
// urgent one, is then found by a full look, from the head, and those are made as often as
// a fiftieth of the time and one in two hundred looks allow, or every five seconds. Elsewhere every look is a full one.

const (
	// lookShare bounds what full looks may cost: a fiftieth of the time.
	lookShare = 50
	// looksBetween is how many short looks come between two full ones, unless that takes longer than longestUnseen: of
	// many claims not one in a hundred is to be slow.
	looksBetween  = 200
	longestUnseen = 5 * time.Second
	// rowCost is about what a claim takes for each job that it returns.
	rowCost = 5 * time.Microsecond
	// slowLook is what full looks take, besides their jobs, when it is worth asking the
	// server what they walk, which is done at most once in probeEvery.
	slowLook   = time.Millisecond
	probeEvery = time.Second
	// manyGone is how many pages a look for one job has to touch to be dear. Where jobs
	// lie in the order in which they are due, a page has some forty.
	manyGone = 250
	// maxFronts bounds the memory that queues take which come and go.
	maxFronts = 10_000
)

// place is a place in a queue's order.
type place struct {
	priority int32
	due      time.Time // zero is before every time
	id       int64     // of those that are due at the same time
}

var head = place{priority: math.MinInt32}

// front is how far the claims of a line have come, and what they took. A line is
// the claims of the same queues and kinds.
type front struct {
	mu     sync.Mutex
	at     []place   // in each of the line's queues
	dear   bool      // full looks walk so much that they are rationed
	looked time.Time // when the last full look ended
	since  int       // how many looks there have been since then
	probed time.Time // when the server was last asked what a full look walks
	full   samples   // of looks from the head
	short  samples   // of looks from the front, since full ones are dear
}

// samples are the times of the last four looks, without what their jobs took.
type samples struct {
	took [4]time.Duration
	n    int
}

func (s *samples) add(took time.Duration, jobs int) {
	s.took[s.n%len(s.took)] = max(took-time.Duration(jobs)*rowCost, 0)
	s.n++
}

// least is what a look takes when nothing else holds it up; 0 if there was none.
func (s *samples) least() time.Duration {
	if s.n == 0 {
		return 0
	}
	return slices.Min(s.took[:min(s.n, len(s.took))])
}

// dear says that the last four all took at least that.
func (s *samples) dear(least time.Duration) bool { return s.n >= len(s.took) && s.least() >= least }

// excess is by how much full looks are slower. Called with mu held.
func (f *front) excess() time.Duration { return max(f.full.least()-f.short.least(), 0) }

// due says that it is time for a full look. Called with mu held.
func (f *front) due() bool {
	ago := time.Since(f.looked)
	return f.short.n > 0 && ago >= lookShare*f.excess() && (f.since >= looksBetween || ago >= longestUnseen)
}

// begin says where the next look begins, and whether that is the head.
func (f *front) begin() (from []place, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dear && !f.due() {
		return slices.Clone(f.at), false
	}
	return f.heads(), true
}

// heads is where a full look begins.
func (f *front) heads() []place { return slices.Repeat([]place{head}, len(f.at)) }

// ended takes note of a look. short says that it has not found all there is, though
// it found less than it was asked for: a full look has to follow.
func (f *front) ended(full bool, took time.Duration, req queue.ClaimRequest, jobs []*queue.Job) (short bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, job := range jobs { // in order: the last of each queue stays
		f.at[slices.Index(req.Queues, job.Queue)] = place{job.Priority, job.ScheduledAt, job.ID}
	}
	if full {
		f.full.add(took, len(jobs))
		f.looked, f.since = time.Now(), 0
		f.dear = f.dear && (f.short.n == 0 || f.excess() >= slowLook/2)
		return false
	}
	f.short.add(took, len(jobs))
	f.since++
	return len(jobs) < req.Limit && f.due()
}

// suspect says that it is worth asking the server what a full look walks.
func (f *front) suspect() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dear || !f.full.dear(slowLook) || time.Since(f.probed) < probeEvery {
		return false
	}
	f.probed = time.Now()
	return true
}

// found takes note of what the server said.
func (f *front) found(pages int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if pages >= manyGone {
		f.dear, f.short = true, samples{}
	}
}

// places are the statement's parameters: arrays of priorities, times and ids.
func places(from []place) (priorities, dues, ids string) {
	var priority, due, id array
	for _, p := range from {
		priority.int(int64(p.priority))
		id.int(p.id)
		if p.due.IsZero() {
			due.string("-infinity")
		} else {
			due.string(p.due.UTC().Format(time.RFC3339Nano))
		}
	}
	return priority.String(), due.String(), id.String()
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
		f = &front{at: slices.Repeat([]place{head}, len(req.Queues))}
		s.all[l] = f
	}
	return f
}
