package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// rationIfCostly records a claim from the head, and rations the claims if the server says that they
// scan much that they cannot use. An error is ignored: the next slow claim tries again.
func (b *Backend) rationIfCostly(ctx context.Context, req queue.ClaimRequest, r *ration, took time.Duration, jobs []*queue.Job) {
	if !r.shouldProbe(req.Queues, took, jobs) {
		return
	}
	if dead, foreign, err := b.probe(ctx, req); err == nil && (dead || foreign) {
		b.startRation(ctx, req, r, foreign)
	}
}

// startRation makes the claims rationed, because of jobs of other kinds (foreign) or of dead rows.
// An error is ignored: the next claim tries again.
func (b *Backend) startRation(ctx context.Context, req queue.ClaimRequest, r *ration, foreign bool) {
	if r.lockClaims(ctx) != nil {
		return
	}
	defer r.unlockClaims()
	if r.isRationed() {
		return
	}
	p := r.begin(foreign)
	if b.addMarks(ctx, req, &p) == nil {
		r.start(p)
	}
}

// stopIfCheap ends the ration if the server says that claims would scan little, after a round that
// took little. Time alone does not tell: on a busy server every scan takes long. It does not ask
// about a queue whose groups take turns, because the answer would be about jobs with a group, too:
// if its claims are cut again, they are rationed again. The caller has called lockClaims.
func (b *Backend) stopIfCheap(ctx context.Context, req queue.ClaimRequest, r *ration) {
	if r.ungrouped {
		r.stop()
		return
	}
	if !r.shouldProbeAgain() {
		return
	}
	started := time.Now()
	dead, foreign, err := b.probe(ctx, req)
	r.progress.skipped.charge(time.Since(started))
	if err == nil && !dead && !foreign {
		r.stop()
	}
}

// probe asks the server, with sql/probe.sql, whether claims scan many dead rows or many jobs of
// other kinds.
func (b *Backend) probe(ctx context.Context, req queue.ClaimRequest) (dead, foreign bool, err error) {
	var plans []struct{ Plan planNode }
	err = b.queryRows(ctx, func(rows *sql.Rows) error {
		var text []byte
		if err := rows.Scan(&text); err != nil {
			return err
		}
		return json.Unmarshal(text, &plans)
	}, b.sql["probe"], textArray(req.Queues), kinds(req))
	if err != nil || len(plans) != 1 {
		return false, false, errors.Join(err, fmt.Errorf("probe: %d plans", len(plans)))
	}
	plan := plans[0].Plan
	pagesOfJobs := 2 * int(plan.found()) // a page of the index and one of the table each, at most
	return plan.Hit+plan.Read-pagesOfJobs >= manyPages, int(plan.Rows) >= manyForeign, nil
}

// planNode is a node of a plan as EXPLAIN shows it in JSON.
type planNode struct {
	Type  string     `json:"Node Type"`
	Rows  float64    `json:"Actual Rows"` // of each loop
	Loops float64    `json:"Actual Loops"`
	Hit   int        `json:"Shared Hit Blocks"`
	Read  int        `json:"Shared Read Blocks"`
	Plans []planNode `json:"Plans"`
}

// found returns how many jobs the plan's scans have found. Each scan ends at a limit.
func (n planNode) found() (rows float64) {
	if n.Type == "Limit" {
		return n.Rows * n.Loops
	}
	for _, below := range n.Plans {
		rows += below.found()
	}
	return rows
}

// addMarks adds marks at the heads of the priorities that have pending jobs and no mark. It does
// not look for those that have a mark: index entries of dead rows lie at their heads.
func (b *Backend) addMarks(ctx context.Context, req queue.ClaimRequest, p *progress) error {
	gaps := p.gaps(req.Queues)
	var queues, firsts, lasts array
	for _, g := range gaps {
		queues.string(g.queue)
		firsts.int(int64(g.from.priority))
		lasts.int(int64(min(g.last, orderedPriority-1)))
	}
	return b.queryRows(ctx, func(rows *sql.Rows) error {
		var n int
		var priority int32
		err := rows.Scan(&n, &priority)
		if err == nil {
			p.add(mark{slices.Index(req.Queues, gaps[n-1].queue), headOf(priority)})
		}
		return err
	}, b.sql["priorities"], queues.String(), firsts.String(), lasts.String(), maxMarks)
}

// claimPlainRationed claims jobs that are not ordered from queues that have no rules in that
// version. The lock of a ration is held in this process only, and shortly.
func (b *Backend) claimPlainRationed(ctx context.Context, req queue.ClaimRequest, r *ration, version int64, wait patience) ([]*queue.Job, error) {
	if wait != noPatience {
		wait = fullPatience
	}
	return b.claimRationed(ctx, req, r, wait, func(all []span) claimQuery { return b.spansClaim(all, false, version, wait) })
}

// claimRationed claims from the marks on, as ration_marks.go explains, with the statements that
// claimIn returns. Claims of one ration run one after the other, because each begins where the last
// has stopped.
func (b *Backend) claimRationed(
	ctx context.Context, req queue.ClaimRequest, r *ration, wait patience, claimIn func(all []span) claimQuery,
) ([]*queue.Job, error) {
	if err := r.lockClaimsWithin(ctx, wait); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	defer r.unlockClaims()
	p := &r.progress
	for {
		// Ask which transactions are open.
		asked := time.Now()
		open, err := b.openTransactions(ctx)
		if err != nil {
			return nil, err
		}
		p.roundTrips.add(time.Since(asked), 0)
		notifications := b.notifications.Load() // a later one may be about a job that the claim misses

		// Move the marks back to the jobs of transactions that have ended. Claim from the marks on,
		// and move the marks forward to where the claim stopped.
		fromHeads := p.moveBack(open)
		jobs, heldBack, err := b.claimSpans(ctx, req, r, open, fromHeads, claimIn)
		if err != nil || heldBack {
			return nil, err
		}
		if len(jobs) > 0 {
			p.scannedUpTo = notifications
		}

		// Scan some of the jobs before the marks. If the claim found nothing and the scan did, or
		// has more to scan, claim again.
		more := b.scanSkipped(ctx, req, r, notifications, len(jobs) == 0)
		if len(jobs) > 0 || !more && p.knownClaimable == nil {
			return jobs, nil
		}
	}
}

// claimSpans claims due jobs in spans that hold all jobs that can be due: whole queues if
// fromHeads, and otherwise the spans that start at the marks. It moves the marks forward. heldBack
// tells that a rule let it claim none.
func (b *Backend) claimSpans(
	ctx context.Context, req queue.ClaimRequest, r *ration, open snapshot, fromHeads bool, claimIn func(all []span) claimQuery,
) (jobs []*queue.Job, heldBack bool, err error) {
	p := &r.progress
	all := wholeQueues(req.Queues)
	if !fromHeads {
		all = p.spans(req.Queues)
	}
	started := time.Now()
	q := claimIn(all)
	jobs, exhausted, err := b.claimWithPayloads(ctx, req, q)
	if err != nil {
		p.transactions.forget() // the next claim starts at the heads
		return nil, false, err
	}
	found := jobs
	if q.limited != nil {
		exhausted = exhausted && q.limited.sawAll
		heldBack = len(jobs) == 0 && !exhausted
		found = r.own(jobs)
	}
	if len(jobs) > 0 {
		p.skipped.claims++
	}
	// A job may be in knownClaimable and behind its mark. It counts twice against the limit.
	exhausted = exhausted && (p.knownClaimable == nil || len(found) == 0)
	p.advance(open.at, req.Queues, found, exhausted)
	if !fromHeads && p.shouldListPriorities(time.Since(started), len(jobs)) {
		b.listAgain(ctx, req, p)
	}
	return jobs, heldBack, nil
}

// own returns the jobs that a claim of a limited queue has found in its spans.
func (r *ration) own(jobs []*queue.Job) []*queue.Job {
	return slices.DeleteFunc(slices.Clone(jobs), func(job *queue.Job) bool {
		return job.Ordered || r.ungrouped && job.Group != ""
	})
}

// listAgain adds marks for priorities that have none. An error is ignored: the next slow claim
// tries again.
func (b *Backend) listAgain(ctx context.Context, req queue.ClaimRequest, p *progress) {
	started := time.Now()
	_ = b.addMarks(ctx, req, p)
	p.noteListed(time.Since(started))
}

// openTransactions returns the transactions that are open, with sql/transactions.sql.
func (b *Backend) openTransactions(ctx context.Context) (s snapshot, err error) {
	err = b.run(ctx, "claim", nil, func(db queue.DB) error {
		var text string
		var next int64
		var at time.Time
		scan := func(rows *sql.Rows) error { return rows.Scan(&text, &next, &at) }
		if err := sqlkit.QueryRows(ctx, db, scan, b.sql["transactions"]); err != nil {
			return err
		}
		s, err = parseSnapshot(text, next, at)
		return err
	})
	return s, err
}

// scanSkipped scans one span of the jobs before the marks, or, if idle, as many as maxScan allows.
// It reports whether the caller should claim new jobs and then call it again. Nobody notifies this
// worker of new jobs while it is awake.
func (b *Backend) scanSkipped(ctx context.Context, req queue.ClaimRequest, r *ration, notifications int64, idle bool) (more bool) {
	begun := time.Now()
	next, ok := r.progress.nextSkipped(req.Queues, notifications, idle)
	for ok && b.scanSpan(ctx, req, r, next) && idle {
		if time.Since(begun) >= maxScan {
			return true
		}
		next, ok = r.progress.nextSkipped(req.Queues, notifications, idle)
	}
	return false
}

// scanSpan scans a span of the jobs before the marks, with sql/skipped.sql. It reports whether
// another scan makes sense now. An error is ignored: the next claim tries again.
func (b *Backend) scanSpan(ctx context.Context, req queue.ClaimRequest, r *ration, next skippedSpan) bool {
	started := time.Now()
	seen := scanResult{last: headOf(next.mark.priority), claimable: headOf(next.mark.priority)}
	scan := func(rows *sql.Rows) error {
		return rows.Scan(&seen.jobs, &seen.last.due, &seen.last.id, &seen.claimable.due, &seen.claimable.id)
	}
	err := b.queryRows(ctx, scan, b.sql["skipped"],
		next.span.queue, kinds(req), next.mark.priority, timeText(next.span.from.due, "-infinity"), next.span.from.id,
		timeText(next.mark.due, "-infinity"), next.mark.id, skippedAtOnce, r.ungrouped)
	if err != nil {
		return false
	}
	r.progress.skipped.account(time.Since(started), seen.jobs)
	switch r.progress.moveOn(next, seen) {
	case roundIsCheap:
		b.stopIfCheap(ctx, req, r)
		return false
	case roundIsOver:
		return false
	}
	return true
}
