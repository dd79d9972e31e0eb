package postgres

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// A rationed claim scans each priority from its mark on, and priorities without a mark from their
// heads. A mark is where the last claim in its priority stopped, so a job before it has come since:
// its transaction was open then, or has begun since. Each claim therefore first reads which
// transactions are open. Marks go back to the earliest due time of jobs whose transactions have
// ended since the last claim.
//
// That time is not known for transactions that were open before the first claim. When they end, and
// at the first claim, a claim scans from the heads if dead rows are the reason for the ration: it
// soon finds jobs. If jobs of other kinds are the reason, it would scan all of them, for 0.3 s at a
// million. Then all jobs before the marks are scanned in parts, and new jobs are claimed in between
// (a full round). A claim that finds nothing returns when the full round is over.
//
// Other jobs can still come to lie before a mark: jobs that keep an old due time, because they were
// released, reclaimed or enqueued for a past time, and jobs that a rolled-back transaction had
// locked. So the jobs before the marks are scanned in rounds, skippedAtOnce jobs at a time, for a
// fiftieth of the time. If a worker was notified and its claim finds nothing, a round goes on to
// its end, for a tenth of the time at most, and new jobs are claimed in between.

const (
	// dueMargin is how much earlier than the first write of its transaction a job may be due.
	// Enqueue reads the clock just before the first write. Each claim scans again what was claimed
	// in that time.
	dueMargin = 100 * time.Millisecond
	// recentDue is how far back a claim scans at once when a full round begins: as long as the
	// claims before it may have taken, and as most transactions are old.
	recentDue = 2 * time.Second
	// maxMarks bounds the marks of a ration. A claim scans at most twice as many spans.
	maxMarks = 100
	// skippedAtOnce is how many of the jobs before a mark one statement scans.
	skippedAtOnce = 2000
	// skippedShare bounds the share of time for scanning jobs before the marks, as its divisor, and
	// notifiedShare that after a notification.
	skippedShare  = 50
	notifiedShare = 10
	// fullShare bounds the share of a full round while claims find jobs.
	fullShare = 2
	// claimsBetween is how many claims that find jobs come between two slow scans of jobs before the
	// marks, unless that takes longer than longestUnseen. So fewer than one claim in a hundred is
	// slow.
	claimsBetween = 200
	longestUnseen = 5 * time.Second
	slowScan      = 5 * time.Millisecond
	// maxCredit and maxNotifiedCredit bound what a claim that finds nothing spends on jobs before
	// the marks.
	maxCredit         = 20 * time.Millisecond
	maxNotifiedCredit = time.Second
	maxFullCredit     = 10 * time.Millisecond
	// maxScan is after how long such a claim looks for new jobs again.
	maxScan = 10 * time.Millisecond
)

// mark is the position in a priority up to which claims have seen every job.
type mark struct {
	queue int // the queue's index in the request
	position
}

// isBefore reports whether p comes before q, a position of the same priority.
func (p position) isBefore(q position) bool {
	return p.due.Before(q.due) || p.due.Equal(q.due) && p.id < q.id
}

// lastBefore returns the latest due time of jobs before p.
func (p position) lastBefore() time.Time {
	if p.id == math.MinInt64 {
		return p.due.Add(-time.Microsecond)
	}
	return p.due
}

// compareMarks orders marks by queue and priority.
func compareMarks(a, b mark) int {
	return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.priority, b.priority))
}

// progress is how far rationed claims have come.
type progress struct {
	inParts        bool   // other kinds' jobs are the reason for the ration: claims never scan from the heads
	marks          []mark // in order
	transactions   transactions
	roundTrips     recentTimes // of the statement that lists the transactions: what any statement takes
	claimTimes     recentTimes // of claims that start at the marks
	listAgain      time.Time   // when a slow claim may list the priorities again
	scannedUpTo    int64       // up to this notification all jobs were scanned, or some were claimed
	skipped        skipped
	knownClaimable *skippedSpan // has jobs that workers can run; nil if no such span is known
}

// skipped is how far the scans of the jobs before the marks have come.
type skipped struct {
	at             mark          // the next scan begins behind it
	credit         time.Duration // what scans may take
	notifiedCredit time.Duration // what they may take after a notification
	fullCredit     time.Duration // what they may take in a full round while claims find jobs
	isFull         bool          // this round is a full one
	counted        time.Time     // until when both have been counted
	excess         time.Duration // what the last scan took, without timePerJob for each job
	ended          time.Time     // when it ended
	claims         int           // that found jobs since then
	notifications  int64         // how many there were before the first scan of this round
	roundTook      time.Duration // what the scans of this round took
	scans          int           // how many there were in this round
	slowRound      bool          // a priority needed more than one
}

// skippedSpan is a span of the jobs before one mark.
type skippedSpan struct {
	mark mark
	span span
}

// scanResult is what a scan of jobs before a mark has seen.
type scanResult struct {
	jobs      int      // how many jobs
	last      position // of the last of them
	claimable position // of the first that this ration's workers can run; at the head if there is none
}

func newProgress(marks []mark, inParts bool) progress {
	return progress{inParts: inParts, marks: marks, skipped: skipped{at: firstMark, counted: time.Now()}}
}

var firstMark = mark{position: headOf(math.MinInt32)}

// moveBack records a snapshot, and moves the marks back to the jobs that may have become visible
// since the last one. It reports whether the claim has to start at the heads.
func (p *progress) moveBack(s snapshot) (fromHeads bool) {
	after := p.transactions.note(s)
	if after.IsZero() && !p.inParts {
		for i, m := range p.marks {
			p.marks[i].position = headOf(m.priority)
		}
		return true
	}
	if after.IsZero() {
		p.skipped.beginRound()
		p.skipped.isFull = true
		for i, m := range p.marks {
			if m.due.IsZero() {
				p.marks[i].position = position{m.priority, s.at, math.MinInt64}
			}
		}
		after = s.at.Add(-recentDue)
	}
	after = after.Add(-dueMargin)
	for i, m := range p.marks {
		if m.due.After(after) {
			p.marks[i].position = position{m.priority, after, math.MinInt64}
		}
	}
	return false
}

// spans returns what a claim that starts at the marks scans: the jobs behind the marks, the
// priorities without a mark, and knownClaimable.
func (p *progress) spans(queues []string) (all []span) {
	rest := p.marks
	for q, name := range queues {
		next := int64(math.MinInt32) // the first priority that is left
		for ; len(rest) > 0 && rest[0].queue == q; rest = rest[1:] {
			m := rest[0]
			if next < int64(m.priority) {
				all = append(all, span{queue: name, from: headOf(int32(next)), last: m.priority - 1})
			}
			// A mark at the head of its priority has no jobs before it.
			if p.knownClaimable != nil && compareMarks(p.knownClaimable.mark, m) == 0 && !m.due.IsZero() {
				known := p.knownClaimable.span
				if end := m.lastBefore(); end.Before(known.until) { // the mark has gone back
					known.until = end
				}
				all = append(all, known)
			}
			all = append(all, span{queue: name, from: m.position, last: m.priority})
			next = int64(m.priority) + 1
		}
		if next <= math.MaxInt32 {
			all = append(all, span{queue: name, from: headOf(int32(next)), last: math.MaxInt32})
		}
	}
	return all
}

// gaps returns the priorities of the queues that have no mark, as spans.
func (p *progress) gaps(queues []string) (all []span) {
	rest := p.marks
	for q, name := range queues {
		next := int64(math.MinInt32) // the first priority that is left
		for ; len(rest) > 0 && rest[0].queue == q; rest = rest[1:] {
			if priority := rest[0].priority; next < int64(priority) {
				all = append(all, span{queue: name, from: headOf(int32(next)), last: priority - 1})
			}
			next = int64(rest[0].priority) + 1
		}
		if next <= math.MaxInt32 {
			all = append(all, span{queue: name, from: headOf(int32(next)), last: math.MaxInt32})
		}
	}
	return all
}

// advance records the jobs, in order, of a claim that began at time at. The claim has seen
// everything if exhausted, and otherwise everything up to the last of the jobs.
func (p *progress) advance(at time.Time, queues []string, jobs []*queue.Job, exhausted bool) {
	for _, job := range jobs {
		p.add(mark{slices.Index(queues, job.Queue), headOf(job.Priority)})
	}
	end := mark{queue: math.MaxInt}
	if !exhausted {
		if len(jobs) == 0 {
			return
		}
		job := jobs[len(jobs)-1]
		end = mark{slices.Index(queues, job.Queue), position{job.Priority, job.ScheduledAt, job.ID}}
		if job.ScheduledAt.Unix() <= 0 { // it may have been due at any time before
			end.position = headOf(job.Priority)
		}
	}
	for i, m := range p.marks {
		switch c := compareMarks(m, end); {
		case c < 0:
			p.marks[i].position = position{m.priority, at, math.MinInt64}
		case c == 0 && m.isBefore(end.position):
			p.marks[i] = end
		}
	}
	if known := p.knownClaimable; known != nil {
		switch c := compareMarks(known.mark, end); {
		case c < 0 || c == 0 && end.due.After(known.span.until):
			p.knownClaimable = nil
		case c == 0 && known.span.from.isBefore(end.position):
			known.span.from = end.position
		}
	}
}

// add adds a mark, unless its priority has one.
func (p *progress) add(m mark) {
	i, found := slices.BinarySearchFunc(p.marks, m, compareMarks)
	if !found && len(p.marks) < maxMarks {
		p.marks = slices.Insert(p.marks, i, m)
	}
}

// shouldListPriorities records a claim that started at the marks. It reports whether to list the
// priorities again, because the claim was slow and one of them may have no mark.
func (p *progress) shouldListPriorities(took time.Duration, jobs int) bool {
	return p.claimTimes.add(took, jobs) >= slowClaim && !time.Now().Before(p.listAgain)
}

// noteListed records how long it took to list the priorities: as long as a scan, if dead rows lie
// at their heads. Then it is done as seldom.
func (p *progress) noteListed(took time.Duration) {
	wait := probeEvery
	if took >= slowScan {
		wait = longestUnseen
	}
	p.listAgain = time.Now().Add(wait)
}

// nextSkipped returns the span of the jobs before the marks to scan next, if it is time.
// notifications is how many there were so far. idle says that the last claim found nothing.
func (p *progress) nextSkipped(queues []string, notifications int64, idle bool) (next skippedSpan, ok bool) {
	s := &p.skipped
	now := time.Now()
	s.fullCredit = min(s.fullCredit+now.Sub(s.counted)/fullShare, maxFullCredit)
	s.credit = min(s.credit+now.Sub(s.counted)/skippedShare, maxCredit)
	s.notifiedCredit = min(s.notifiedCredit+now.Sub(s.counted)/notifiedShare, maxNotifiedCredit)
	s.counted = now
	isSeldomEnough := s.excess < slowScan || s.claims >= claimsBetween || now.Sub(s.ended) >= longestUnseen
	isNotified := notifications > p.scannedUpTo
	mayScan := s.isFull && (idle || s.fullCredit >= 0) ||
		isSeldomEnough && (s.credit >= 0 || isNotified && s.notifiedCredit >= 0)
	if p.knownClaimable != nil || !mayScan {
		return skippedSpan{}, false
	}
	if s.scans == 0 {
		s.notifications = notifications
	}
	i, found := slices.BinarySearchFunc(p.marks, s.at, compareMarks)
	if i == len(p.marks) {
		return skippedSpan{}, false
	}
	m := p.marks[i]
	if !found {
		s.at = mark{m.queue, headOf(m.priority)}
	}
	return skippedSpan{m, span{queue: queues[m.queue], from: s.at.position, last: m.priority, until: m.due}}, true
}

// roundState is how far a round of scans of all jobs before the marks has come.
type roundState int

const (
	roundGoesOn roundState = iota
	roundIsOver
	roundIsCheap // it is over, and took so little that claims may need no ration
)

// account subtracts what a scan took from the shares of time, and adds it to its round.
func (s *skipped) account(took time.Duration, jobs int) {
	s.ended, s.excess, s.claims = time.Now(), took-time.Duration(jobs)*timePerJob, 0
	s.charge(took)
	s.roundTook += took
	s.scans++
}

// charge subtracts a time from the shares of time.
func (s *skipped) charge(took time.Duration) {
	s.credit -= took
	s.notifiedCredit -= took
	s.fullCredit -= took
}

// moveOn sets where the next scan begins, after a scan of that span.
func (p *progress) moveOn(scanned skippedSpan, seen scanResult) roundState {
	s := &p.skipped
	if seen.claimable.id != math.MinInt64 {
		if seen.claimable.due.Unix() > 0 { // else it may be due at any time before
			scanned.span.from = seen.claimable
			scanned.span.from.id--
		}
		scanned.span.until = seen.last.due
		p.knownClaimable = &scanned
	}
	if seen.jobs == skippedAtOnce {
		s.at.position, s.slowRound = seen.last, true
		return roundGoesOn
	}
	i, _ := slices.BinarySearchFunc(p.marks, scanned.mark, compareMarks)
	if i++; i < len(p.marks) {
		s.at = mark{p.marks[i].queue, headOf(p.marks[i].priority)}
		return roundGoesOn
	}
	return p.endRound()
}

// beginRound begins a new round, which is not a full one.
func (s *skipped) beginRound() {
	s.at, s.roundTook, s.scans, s.slowRound, s.isFull = firstMark, 0, 0, false, false
}

// endRound begins a new round. It reports whether the last one was cheap.
func (p *progress) endRound() roundState {
	s := &p.skipped
	cheap := !s.slowRound && p.roundTrips.isFull() && s.roundTook-time.Duration(s.scans)*p.roundTrips.most() < slowScan
	s.beginRound()
	p.scannedUpTo = max(p.scannedUpTo, s.notifications)
	if cheap {
		return roundIsCheap
	}
	return roundIsOver
}
