package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// maxLimited is the most jobs of one claim of a limited queue. Other claims of the queue wait for
// it.
const maxLimited = 1000

// limitedEnd is what a claim of a limited queue came to, beside its jobs.
type limitedEnd struct {
	isCut   bool // it has stopped at jobs that it could not use, and others may be behind them (lock_spans)
	sawAll  bool // no other job in its spans can be claimed
	hasMore bool // there are groups that it has not looked at
}

// claimLimited claims from a limited queue. If a rule bounds how many jobs run or start, it claims
// for free slots only. While it comes only to jobs that it may not claim, it goes on for
// limits.WalkTime, if it may wait.
func (b *Backend) claimLimited(ctx context.Context, req queue.ClaimRequest, known *knownRules, wait patience) (jobs []*queue.Job, err error) {
	name, hasMore := req.Queues[0], true
	rules := known.limited[name]
	if rules.isBounded {
		req.Limit -= req.Ahead
	}
	req.Limit = min(req.Limit, maxLimited)
	if req.Limit <= 0 || b.rules.isHeld(name, time.Now()) {
		return nil, nil
	}
	for begun := time.Now(); hasMore && len(jobs) == 0 && time.Since(begun) < limits.WalkTime; {
		jobs, hasMore, err = b.claimLimitedOnce(ctx, req, known, wait.after(b.rules.Of(name).Own.busy))
		if errors.Is(err, errClaimsBusy) {
			b.rules.noteBusy(name)
		}
		if err != nil {
			return jobs, err
		}
		if wait == noPatience {
			break
		}
	}
	b.rules.NotePace(name, len(jobs) > 0, hasMore)
	if rules.isBounded && len(jobs) > 0 {
		// The claim may have taken the last place. Another worker of this process may be about to sleep,
		// and the end of these jobs does not wake it.
		b.rules.Change(name, func(c *limits.LastClaim[lastClaim]) { c.HeldBack = true })
	}
	for _, job := range jobs {
		job.Limited = rules.isBounded
	}
	return jobs, nil
}

// claimLimitedOnce claims from a limited queue. hasMore tells that there are jobs that it has not
// looked at.
func (b *Backend) claimLimitedOnce(
	ctx context.Context, req queue.ClaimRequest, known *knownRules, wait patience,
) (jobs []*queue.Job, hasMore bool, err error) {
	name, end := req.Queues[0], new(limitedEnd)
	claimIn := func(all []span) claimQuery { return b.limitedClaim(name, known.version, all, end, wait) }
	r := b.rations.of(req, known.limited[name].hasTurns)
	if r.isRationed() {
		jobs, err = b.claimRationed(ctx, req, r, wait, claimIn)
	} else {
		jobs, _, err = b.claimWithPayloads(ctx, req, claimIn(nil))
	}
	if err == nil && end.isCut {
		b.startRation(ctx, req, r, true)
	}
	return jobs, end.hasMore || end.isCut, err
}

// limitedClaim returns the statement that claims from a limited queue, sql/claim_limited.sql.
// Without spans it reads from the heads on, until it is cut.
func (b *Backend) limitedClaim(name string, version int64, all []span, end *limitedEnd, wait patience) claimQuery {
	var spans any
	if all != nil {
		spans = spanJSON(all)
	}
	return claimQuery{
		text: b.sql["claim_limited"],
		args: func(req queue.ClaimRequest, longest int64) []any {
			last := b.rules.Of(name).Own
			return []any{
				name, kinds(req), req.Limit, sqlkit.Microseconds(req.Lease), req.Worker, longest, version, last.after, last.afterOrdered, spans,
				sqlkit.Microseconds(time.Duration(wait)),
			}
		},
		limited: end,
		wait:    wait,
		last: func(row *queue.Job) {
			*end = limitedEnd{isCut: row.Kind == "cut", sawAll: row.Kind == "all", hasMore: row.Priority > 0}
			own, now := lastClaim{after: row.Group, afterOrdered: row.Key}, time.Now()
			last := limits.LastClaim[lastClaim]{HeldBack: row.Attempt > 0}
			if row.Fence > 0 {
				last.Tokens = now.Add(sqlkit.Duration(row.Fence))
			}
			if row.MaxAttempts > 0 {
				own.hold = now.Add(min(sqlkit.Duration(int64(row.MaxAttempts)), longestHold))
			}
			last.Own = own
			b.rules.Note(name, last)
		},
	}
}
