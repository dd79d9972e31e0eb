package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// Rationed claims.
//
// Example: a queue has 10,000 due jobs that this worker may not run, and a few that it may. A claim
// from the head scans all of them. A rationed claim starts at a mark, where the last claim stopped:
// with the mark at job 9,990 it scans ten. Then a slow transaction commits a job that is due before
// job 9,800. The next claim sees that a transaction has ended since the last claim. It moves the
// mark back to the time when that transaction began, so the mark lies before the new job. The claim
// takes the job, and moves the mark forward to where it stops.
//
// Problem: a claim scans its queues from their heads. There may be many entries that it cannot use:
// due jobs of kinds that it may not run, and index entries of dead rows, which VACUUM cannot remove
// during a long transaction anywhere in the database.
// Rule: when claims are slow, the backend asks the server what they scan (sql/probe.sql). From
// manyPages pages or manyForeign jobs on, claims of these queues and kinds are rationed: they start
// at marks, and the jobs before the marks are scanned now and then (ration_marks.go).
// A claim of a limited queue holds a lock that other claims wait for. It stops where it has read
// 2,500 due jobs of a priority (lock_spans), and is rationed from then on, without a probe.
// Ends: when one scan of all jobs before the marks takes under slowScan beyond its round trips, and
// the server says that claims scan little again.
// Bounds: one probe in probeEvery, maxMarks marks, maxRations combinations of queues and kinds;
// jobs before the marks take a fiftieth of the time, a tenth after a notification, or half of it
// in a full round.
// Shown by: TestClaimsBesideDeadRows, TestRationedOrder, BenchmarkDrain/pinned; the lab's scenarios
// head and pinned.
//
// Entry points: [rations.of], [ration.isRationed], [Backend.claimRationed] and
// [Backend.rationIfCostly].

const (
	// timePerJob is about what a claim takes for each job that it returns.
	timePerJob = 5 * time.Microsecond
	// slowClaim is how long claims take, apart from timePerJob, when a probe pays: each of the last
	// four this long, or the last one three times as long. There is at most one probe in probeEvery.
	slowClaim  = time.Millisecond
	probeEvery = time.Second
	// manyPages is how many pages a claim touches, apart from those of the jobs that it returns,
	// when claims are rationed. manyForeign is how many jobs of other kinds it passes over then. A
	// page has some forty jobs where they lie in the order in which they are due.
	manyPages   = 250
	manyForeign = 200
	// maxRations bounds the memory for queues that come and go.
	maxRations = 10_000
)

// position is a position in a queue's order.
type position struct {
	priority int32
	due      time.Time // zero is before every time
	id       int64     // orders the jobs that are due at the same time
}

// headOf returns the position before all jobs of a priority.
func headOf(priority int32) position { return position{priority: priority, id: math.MinInt64} }

// span is a part of a queue that a claim scans.
type span struct {
	queue string
	from  position  // the first job comes after it
	last  int32     // the last priority
	until time.Time // the last due time; zero means all
}

// wholeQueues returns spans from the queues' heads to their ends.
func wholeQueues(queues []string) []span {
	all := make([]span, len(queues))
	for i, name := range queues {
		all[i] = span{queue: name, from: headOf(math.MinInt32), last: math.MaxInt32}
	}
	return all
}

// spanJSON returns the spans of one queue as the function lock_spans reads them.
func spanJSON(all []span) string {
	objects := make([]string, len(all))
	for i, s := range all {
		objects[i] = fmt.Sprintf(`{"priority":%d,"due":"%s","id":%d,"last":%d,"until":"%s"}`,
			s.from.priority, timeText(s.from.due, "-infinity"), s.from.id, s.last, timeText(s.until, "infinity"))
	}
	return "[" + strings.Join(objects, ",") + "]"
}

// spanArrays returns the parameters of sql/claim.sql that name the spans.
func spanArrays(all []span) (queues, priorities, dues, ids, lasts, untils string) {
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

// timeText returns t as the server reads it, or the text for the zero time.
func timeText(t time.Time, zero string) string {
	if t.IsZero() {
		return zero
	}
	return timestamp(t)
}

// rations are all rations of a backend. Its workers share them.
type rations struct {
	mu  sync.Mutex
	all map[rationKey]*ration
}

type rationKey struct {
	queues, kinds string
	ungrouped     bool
}

// of returns the ration of the request's queues and kinds. If ungrouped, it is that of a queue
// whose groups take turns: it is about the jobs without a group.
func (s *rations) of(req queue.ClaimRequest, ungrouped bool) *ration {
	key := rationKey{textArray(req.Queues), textArray(req.Kinds), ungrouped}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[key]
	if r == nil {
		if s.all == nil || len(s.all) >= maxRations {
			s.all = make(map[rationKey]*ration)
		}
		r = &ration{ungrouped: ungrouped, claiming: make(chan struct{}, 1)}
		s.all[key] = r
	}
	return r
}

// ration is what a backend knows about the claims of the same queues and kinds.
type ration struct {
	ungrouped bool // jobs with a group are not its own

	mu         sync.Mutex
	rationed   bool
	probed     time.Time   // when the server was last asked what claims scan
	claimTimes recentTimes // of claims from the head
	claimed    []mark      // at the heads of the priorities where the last claim found jobs: dead rows lie there now

	claiming chan struct{} // a lock that a rationed claim holds; it guards progress
	progress progress
}

// isRationed reports whether claims are rationed.
func (r *ration) isRationed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rationed
}

// shouldProbe records a claim from the head: how long it took, and which priorities it has taken
// jobs from. It reports whether to ask the server what claims scan.
func (r *ration) shouldProbe(queues []string, took time.Duration, jobs []*queue.Job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, job := range jobs {
		if i == 0 {
			r.claimed = r.claimed[:0]
		}
		if i == 0 || job.Priority != jobs[i-1].Priority || job.Queue != jobs[i-1].Queue {
			r.claimed = append(r.claimed, mark{slices.Index(queues, job.Queue), headOf(job.Priority)})
		}
	}
	slow := r.claimTimes.add(took, len(jobs)) >= 3*slowClaim || r.claimTimes.allTook(slowClaim)
	if r.rationed || !slow || time.Since(r.probed) < probeEvery {
		return false
	}
	r.probed = time.Now()
	return true
}

// shouldProbeAgain reports whether to ask the server whether rationed claims still need their
// ration: that costs as much as a claim from the heads.
func (r *ration) shouldProbeAgain() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.probed) < longestUnseen {
		return false
	}
	r.probed = time.Now()
	return true
}

// begin returns a progress with marks at the heads of the priorities where the last claim found
// jobs. foreign tells that jobs of other kinds are the reason for the ration, and not dead rows.
func (r *ration) begin(foreign bool) progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := newProgress(nil, foreign)
	for _, m := range r.claimed {
		p.add(m)
	}
	return p
}

// start makes claims rationed, with that progress. The caller has called lockClaims.
func (r *ration) start(p progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = p
	r.rationed = true
}

// stop lets claims start at the head again. A server that is slow for other reasons is not probed
// for a while. The caller has called lockClaims.
func (r *ration) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rationed, r.claimTimes = false, recentTimes{}
	r.probed = time.Now().Add(9 * probeEvery)
}

// lockClaims waits until no other rationed claim is running. The error is ctx's.
func (r *ration) lockClaims(ctx context.Context) error {
	select {
	case r.claiming <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lockClaimsWithin is lockClaims for a claim with that patience. The error is ctx's or
// errClaimsBusy.
func (r *ration) lockClaimsWithin(ctx context.Context, wait patience) error {
	if wait == fullPatience {
		return r.lockClaims(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(wait))
	defer cancel()
	select {
	case r.claiming <- struct{}{}:
		return nil
	default:
	}
	if err := r.lockClaims(waiting); err == nil || ctx.Err() != nil {
		return err
	}
	return errClaimsBusy
}

// unlockClaims lets the next rationed claim run.
func (r *ration) unlockClaims() { <-r.claiming }
