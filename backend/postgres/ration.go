package postgres

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// Rationed claims look at each priority from its mark on, and at what lies between the marks' priorities from its head. A mark is where
// the last look in its priority ended. A job that lies before it has come since: its transaction was open then, or begun later. So each
// claim reads first which transactions are open, and marks go back to where the jobs of those that have ended may be due. Where that is
// not known, the claim looks from the head. What can still lie before a mark are jobs that keep an old due time, such as one that is
// released, reclaimed or enqueued for a time that is over, and jobs that were locked by a transaction that came to nothing. For these, a
// few thousand of the jobs that are passed over are looked at in turn, for a fiftieth of the time; and where a worker has been notified
// and finds nothing, at all of them, for a tenth of the time, and at what comes meanwhile.

const (
	// dueMargin is how much earlier than the first write of its transaction a job may be due: Enqueue takes the time at which its
	// statement came, and writes once that is planned and its jobs are read. Each claim walks what was claimed in that time again.
	dueMargin = 100 * time.Millisecond
	// maxMarks bounds the marks of a line: a claim looks at twice as many stretches.
	maxMarks = 100
	// passedAtOnce is how many of the jobs that are passed over are looked at at once.
	passedAtOnce = 2000
	// passedShare and wokenShare bound what looks at what is passed over may cost, and those after a notification.
	passedShare = 50
	wokenShare  = 10
	// looksBetween is how many looks come between two of those that are slow, unless that takes longer than longestUnseen: of many
	// claims not one in a hundred is to be slow.
	looksBetween  = 200
	longestUnseen = 5 * time.Second
	slowPassed    = 5 * time.Millisecond
	// maxCredit and maxWokenCredit bound what a claim that finds nothing spends on what is passed over.
	maxCredit      = 20 * time.Millisecond
	maxWokenCredit = time.Second
	// maxPassed is after how long such a claim looks again for what has come.
	maxPassed = 10 * time.Millisecond
)

// mark is how far claims have looked at every job of a priority.
type mark struct {
	queue int // the number among the line's
	place
}

func compareMarks(a, b mark) int {
	return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.priority, b.priority))
}

// ration is what rationed claims of a line know.
type ration struct {
	marks        []mark // in order
	transactions transactions
	trips        samples   // of the statement that lists the transactions, which takes what any statement takes
	short        samples   // of looks that begin at the marks
	slowed       time.Time // when the marks' priorities were last listed, because such a look was slow
	answered     int64     // the notifications for which all has been looked at, or jobs have been found
	passed       passed
	found        *part // of what is passed over, with jobs for this line
}

// part is a stretch of one priority of what is passed over.
type part struct {
	mark    mark
	stretch stretch
}

func newRation(marks []mark) ration {
	return ration{marks: marks, passed: passed{at: firstMark, counted: time.Now()}}
}

var firstMark = mark{place: headOf(math.MinInt32)}

// passed is how far the look at what is passed over has come.
type passed struct {
	at        mark          // the next look begins behind it
	credit    time.Duration // what looks may cost
	woken     time.Duration // what they may cost after a notification
	counted   time.Time     // until when both have been counted
	heard     int64         // the notifications before the first look of this round
	took      time.Duration // what the last look took
	ended     time.Time     // when it ended
	claims    int           // since then
	round     time.Duration // what the looks took since the first mark
	looks     int           // how many there were since then
	slowRound bool          // whether there were more than one for a mark
}

// begin takes note of a snapshot, and reports whether the look has to begin at the head.
func (r *ration) begin(s snapshot) (full bool) {
	r.passed.claims++
	after := r.transactions.note(s)
	if after.IsZero() {
		r.reset()
		return true
	}
	after = after.Add(-dueMargin)
	for i, m := range r.marks {
		if m.due.After(after) {
			r.marks[i].place = place{m.priority, after, math.MinInt64}
		}
	}
	return false
}

// reset moves all marks to the heads of their priorities.
func (r *ration) reset() {
	for i, m := range r.marks {
		r.marks[i].place = headOf(m.priority)
	}
}

// stretches are what a claim looks at that begins at the marks, and the part of what is passed over that has jobs.
func (r *ration) stretches(queues []string) (all []stretch) {
	rest := r.marks
	for q, name := range queues {
		next := int64(math.MinInt32) // the first priority that is left
		for ; len(rest) > 0 && rest[0].queue == q; rest = rest[1:] {
			m := rest[0]
			if next < int64(m.priority) {
				all = append(all, stretch{queue: name, from: headOf(int32(next)), last: m.priority - 1})
			}
			if r.found != nil && compareMarks(r.found.mark, m) == 0 {
				all = append(all, r.found.stretch)
			}
			all = append(all, stretch{queue: name, from: m.place, last: m.priority})
			next = int64(m.priority) + 1
		}
		if next <= math.MaxInt32 {
			all = append(all, stretch{queue: name, from: headOf(int32(next)), last: math.MaxInt32})
		}
	}
	return all
}

// advance takes note of what a look has found, in order, that began at time at. It has looked at everything if exhausted, and else at everything up
// to the last of the jobs.
func (r *ration) advance(at time.Time, queues []string, jobs []*queue.Job, exhausted bool) {
	for _, job := range jobs {
		r.add(mark{slices.Index(queues, job.Queue), headOf(job.Priority)})
	}
	end := mark{queue: math.MaxInt}
	if !exhausted {
		if len(jobs) == 0 {
			return
		}
		job := jobs[len(jobs)-1]
		end = mark{slices.Index(queues, job.Queue), place{job.Priority, job.ScheduledAt, job.ID}}
		if job.ScheduledAt.Unix() <= 0 { // it may have been due at any time before
			end.place = headOf(job.Priority)
		}
	}
	for i, m := range r.marks {
		switch c := compareMarks(m, end); {
		case c < 0:
			r.marks[i].place = place{m.priority, at, math.MinInt64}
		case c == 0 && end.due.After(m.due) || end.due.Equal(m.due) && end.id > m.id:
			r.marks[i] = end
		}
	}
	if f := r.found; f != nil {
		if c := compareMarks(f.mark, end); c < 0 || c == 0 && end.due.After(f.stretch.until) {
			r.found = nil
		}
	}
}

// add adds a mark, unless its priority has one.
func (r *ration) add(m mark) {
	i, found := slices.BinarySearchFunc(r.marks, m, compareMarks)
	if !found && len(r.marks) < maxMarks {
		r.marks = slices.Insert(r.marks, i, m)
	}
}

// isSlow takes note of a look that began at the marks, and reports whether it is worth listing the priorities anew, of which one may
// have no mark.
func (r *ration) isSlow(took time.Duration, jobs int) bool {
	if r.short.add(took, jobs) < slowLook || time.Since(r.slowed) < probeEvery {
		return false
	}
	r.slowed = time.Now()
	return true
}

// nextPassed returns the part of what is passed over that is looked at next, if it is time; heard are the notifications up to now.
func (r *ration) nextPassed(queues []string, heard int64) (next part, ok bool) {
	p := &r.passed
	now := time.Now()
	p.credit = min(p.credit+now.Sub(p.counted)/passedShare, maxCredit)
	p.woken = min(p.woken+now.Sub(p.counted)/wokenShare, maxWokenCredit)
	p.counted = now
	isSeldom := p.took < slowPassed || p.claims >= looksBetween || now.Sub(p.ended) >= longestUnseen
	mayLook := p.credit >= 0 && isSeldom || heard > r.answered && p.woken >= 0
	if r.found != nil || !mayLook {
		return part{}, false
	}
	if p.looks == 0 {
		p.heard = heard
	}
	i, found := slices.BinarySearchFunc(r.marks, p.at, compareMarks)
	if i == len(r.marks) {
		return part{}, false
	}
	m := r.marks[i]
	if !found {
		p.at = mark{m.queue, headOf(m.priority)}
	}
	return part{m, stretch{queue: queues[m.queue], from: p.at.place, last: m.priority, until: m.due}}, true
}

// roundState is how far a round of looks at all that is passed over has come.
type roundState int

const (
	roundGoesOn roundState = iota
	roundIsOver
	roundIsCheap // it is over, and took so little that claims need not be rationed
)

// endedPassed takes note of a look at a part that has found n jobs, the last of them at that place, and some for this line if ours.
func (r *ration) endedPassed(look part, took time.Duration, n int, last place, ours bool) roundState {
	p := &r.passed
	p.ended, p.took, p.claims = time.Now(), took, 0
	p.credit -= took
	p.woken -= took
	p.round += took
	p.looks++
	if ours {
		look.stretch.until = last.due
		r.found = &look
	}
	if n == passedAtOnce {
		p.at.place, p.slowRound = last, true
		return roundGoesOn
	}
	i, _ := slices.BinarySearchFunc(r.marks, look.mark, compareMarks)
	if i++; i < len(r.marks) {
		p.at = mark{r.marks[i].queue, headOf(r.marks[i].priority)}
		return roundGoesOn
	}
	cheap := !p.slowRound && r.trips.isFull() && p.round-time.Duration(p.looks)*r.trips.least() < slowLook/2
	p.at, p.round, p.looks, p.slowRound = firstMark, 0, 0, false
	r.answered = max(r.answered, p.heard)
	if cheap {
		return roundIsCheap
	}
	return roundIsOver
}
