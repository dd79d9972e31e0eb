package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/badrows"
	"github.com/errandhq/errand/backend/internal/clockwatch"
	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// operationExtend is the operation that writes before all others that wait.
const operationExtend = "extend"

// maxAttempt is the highest attempt that is counted: 32 bits, as on PostgreSQL.
const maxAttempt = math.MaxInt32

// maxPriorities is how many priorities of a queue a claim looks at one by one.
const maxPriorities = 100

// Claim implements [queue.Consumer]. sql/next_priority.sql and sql/due.sql find the jobs,
// sql/fence.sql and sql/take.sql claim them. If no job is due, Claim only reads. Otherwise it waits
// for its turn to write. A file has only one writer, so no claim meets a locked row. Jobs that a
// trigger refuses to change are logged, and passed over for a minute.
func (b *Backend) Claim(ctx context.Context, req queue.ClaimRequest) (jobs []*queue.Job, err error) {
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("sqlite: claim: %w", err)
	}
	for {
		found, err := b.look(ctx, req)
		if err != nil || len(found.jobs) == 0 {
			return nil, err
		}
		var known *knownRules
		err = b.write(ctx, "claim", func(ctx context.Context, db queue.DB) (err error) {
			found, known, err = b.claim(ctx, db, req)
			return err
		})
		b.noteTurns(found)
		b.notePace(req, found)
		b.badRows.claims.Note(b.options.Logger, "claim", found.refused)
		if err != nil {
			return nil, err
		}
		b.rules.latest.Store(known)
		if len(found.jobs) > 0 || len(found.refused) == 0 {
			return found.jobs, nil
		}
	}
}

// look returns the first job that is due, if there is one. While it comes only to groups of limited
// queues without jobs that it may claim, it goes on for limits.WalkTime.
func (b *Backend) look(ctx context.Context, req queue.ClaimRequest) (found claimResult, err error) {
	for begun, hasMore := time.Now(), true; hasMore && err == nil && time.Since(begun) < limits.WalkTime; {
		err = b.read(ctx, "claim", func(db queue.DB) error {
			known, err := b.committedRules(ctx, db, req.Queues)
			if err == nil {
				found, err = b.find(ctx, db, oneOf(req), known, true)
			}
			return err
		})
		if len(found.jobs) > 0 {
			break // the claim that follows begins where this one did
		}
		b.noteTurns(found)
		hasMore = slices.ContainsFunc(req.Queues, func(name string) bool { return found.limited[name].Own.hasMore })
	}
	b.notePace(req, found)
	return found, err
}

// notePace records how soon to look at more groups of the request's queues.
func (b *Backend) notePace(req queue.ClaimRequest, found claimResult) {
	for _, name := range req.Queues {
		b.rules.NotePace(name, len(found.jobs) > 0, found.limited[name].Own.hasMore)
	}
}

// noteTurns records where the next claims begin.
func (b *Backend) noteTurns(found claimResult) {
	b.turns.set(found.turns)
	for name, last := range found.limited {
		b.rules.Note(name, last)
	}
}

// oneOf returns the request for one job of those that req asks for.
func oneOf(req queue.ClaimRequest) queue.ClaimRequest {
	if req.Ahead < req.Limit {
		req.Limit, req.Ahead = 1, 0
	} else {
		req.Limit, req.Ahead = 1, 1
	}
	return req
}

// claim claims jobs, and returns the rules by which it has.
func (b *Backend) claim(ctx context.Context, db queue.DB, req queue.ClaimRequest) (found claimResult, known *knownRules, err error) {
	fence, version, err := b.drawFence(ctx, db)
	if err != nil {
		return found, nil, err
	}
	if known, err = b.rulesOf(ctx, db, version); err != nil {
		return found, nil, err
	}
	if found, err = b.find(ctx, db, req, known, true); err != nil {
		return found, nil, err
	}
	if len(found.jobs) == 0 {
		return found, known, errUndo
	}
	ids := make([]int64, len(found.jobs))
	for i, job := range found.jobs {
		job.Attempt = min(job.Attempt, maxAttempt-1) + 1
		job.Fence, job.Worker = fence, req.Worker
		ids[i] = job.ID
	}
	at := found.at
	found.refused, err = halve(ctx, db, ids, func(part []int64) error {
		_, err := exec(ctx, db, b.sql["take"], idList(part), fence, at, at+sqlkit.Microseconds(req.Lease), req.Worker)
		return err
	})
	found.jobs = slices.DeleteFunc(found.jobs, func(j *queue.Job) bool { return isAmong(found.refused, j.ID) })
	if err == nil && len(found.jobs) == 0 {
		err = errUndo
	}
	if err == nil {
		err = b.spend(ctx, db, found)
	}
	return found, known, err
}

// drawFence draws a fence, and returns the version of the rules. It must be the first statement of
// a transaction, because it writes.
func (b *Backend) drawFence(ctx context.Context, db queue.DB) (fence, rules int64, err error) {
	err = queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&fence, &rules) }, b.sql["fence"])
	return fence, rules, err
}

// find returns the jobs that are due, in order, up to the request's Limit and Bytes, as many as
// the rules allow, with ordered ones or without.
func (b *Backend) find(ctx context.Context, db queue.DB, req queue.ClaimRequest, known *knownRules, ordered bool) (result claimResult, err error) {
	at := now()
	result.at, result.passed = at, b.badRows.claims.IDs()
	for i, name := range req.Queues {
		if slices.Contains(req.Queues[:i], name) {
			continue
		}
		if q := known.queues[name]; q != nil {
			err = b.findLimited(ctx, db, name, q, at, &result, req)
		} else {
			err = b.findIn(ctx, db, name, at, &result, req, ordered)
		}
		if err != nil {
			return result, err
		}
		if result.isFull(req) {
			break
		}
	}
	return result, nil
}

// withLimit returns req with that Limit.
func withLimit(req queue.ClaimRequest, limit int) queue.ClaimRequest {
	req.Limit = limit
	return req
}

// kindsOf returns the JSON array of the kinds that req asks for, or NULL for all kinds.
func kindsOf(req queue.ClaimRequest) any {
	if len(req.Kinds) == 0 {
		return nil
	}
	return stringList(req.Kinds)
}

// findIn adds the due jobs of a queue to result. It reads each priority by itself, because in the
// index any number of scheduled jobs may stand between the due jobs of two priorities.
func (b *Backend) findIn(ctx context.Context, db queue.DB, name string, at int64, result *claimResult, req queue.ClaimRequest, ordered bool) error {
	priority := int64(math.MinInt64)
	for range maxPriorities {
		var next sql.NullInt64
		err := queryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&next) }, b.sql["next_priority"], name, priority)
		if err != nil || !next.Valid {
			return err
		}
		switch priority = next.Int64; {
		case priority != orderedPriority:
			err = result.fill(ctx, db, name, req, b.sql["due"], name, priority, at, req.Limit-len(result.jobs), kindsOf(req))
		case ordered:
			err = b.findOrdered(ctx, db, name, at, result, req, nil)
		}
		if err != nil || result.isFull(req) {
			return err
		}
	}
	err := result.fill(ctx, db, name, req, b.sql["due_beyond"], name, priority, at, req.Limit-len(result.jobs), kindsOf(req))
	if err != nil || result.isFull(req) || !ordered {
		return err
	}
	return b.findOrdered(ctx, db, name, at, result, req, nil)
}

// Extend implements [queue.Consumer] with sql/extend.sql: in one transaction, one statement for
// each claim that the jobs come from. It waits while another transaction has the write lock, even
// if that transaction has changed other rows: SQLite locks the whole file.
func (b *Backend) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if err := driver.CheckLease(lease); err != nil {
		return nil, nil, fmt.Errorf("sqlite: extend: %w", err)
	}
	if slices.Contains(jobs, nil) {
		return nil, nil, fmt.Errorf("sqlite: extend: %w", sqlkit.Invalid("Job", "nil"))
	}
	if len(jobs) == 0 {
		return nil, nil, nil
	}
	groups, stale := byClaim(jobs, func(j *queue.Job) *queue.Job { return j })
	err = b.write(ctx, operationExtend, func(ctx context.Context, db queue.DB) error {
		lost, asked = slices.Clone(stale), nil
		at := now()
		for _, g := range groups {
			held, askedIDs, err := extendClaim(ctx, db, b.sql["extend"], idsOf(g), g.fence, g.Worker, at, at+sqlkit.Microseconds(lease))
			if err != nil {
				return err
			}
			lost = append(lost, g.Without(held)...)
			asked = append(asked, g.With(askedIDs)...)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return lost, asked, nil
}

// extendClaim runs sql/extend.sql. It returns the ids of the jobs that the worker holds, and of
// those that it is asked to cancel.
func extendClaim(ctx context.Context, db queue.DB, query string, args ...any) (held, asked []int64, err error) {
	err = queryRows(ctx, db, func(rows *sql.Rows) error {
		var id int64
		var isAsked bool
		err := rows.Scan(&id, &isAsked)
		held = append(held, id)
		if isAsked {
			asked = append(asked, id)
		}
		return err
	}, query, args...)
	return held, asked, err
}

// Reassign implements [driver.Reassigner] with sql/reassign.sql: in one transaction, one statement
// for each claim that the jobs come from, and each worker that is to hold some of them.
func (b *Backend) Reassign(ctx context.Context, workers []string, jobs ...*queue.Job) (left []*queue.Job, err error) {
	const operation = "reassign"
	if err := driver.CheckReassign(workers, jobs); err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", operation, err)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	all := sqlkit.ReassignedOf(workers, jobs)
	groups, stale := byClaim(all, func(r sqlkit.Reassigned) *queue.Job { return r.Job })
	err = b.write(ctx, operation, func(ctx context.Context, db queue.DB) error {
		left = slices.Clone(stale)
		for _, g := range groups {
			for len(g.Items) > 0 {
				to := g.Items[0].To
				same, others := g.Split(func(r sqlkit.Reassigned) bool { return r.To == to })
				part := claimed[sqlkit.Reassigned]{same, g.fence}
				done, err := queryIDs(ctx, db, b.sql["reassign"], idsOf(part), g.fence, g.Worker, to)
				if err != nil {
					return err
				}
				left = append(left, same.Without(done)...)
				g.Held = others
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sqlkit.Apply(all, left)
	return left, nil
}

// Reclaim implements [driver.Reclaimer] with sql/reclaim.sql. If no lease has expired, it only
// reads. Package clockwatch says what a jump of this machine's clock does.
func (b *Backend) Reclaim(ctx context.Context, limit int) (jobs []*queue.Job, err error) {
	if limit < 1 {
		return nil, fmt.Errorf("sqlite: reclaim: %w", sqlkit.Invalid("Limit", "%d: at least 1", limit))
	}
	b.emptyWAL(ctx)
	look := b.clock.Begin()
	at := now()
	look, jump := b.clock.Note(look, at)
	clockwatch.Log(b.options.Logger, jump)
	b.ticks.NoteJump(jump)
	var expired []int64
	err = b.read(ctx, "reclaim", func(db queue.DB) (err error) {
		passed := b.badRows.reclaims.IDs()
		expired, err = queryIDs(ctx, db, b.sql["expired"], at, min(limit, math.MaxInt-len(passed))+len(passed), look.JSON(), look.Since)
		expired = without(expired, passed)
		expired = expired[:min(len(expired), limit)]
		return err
	})
	if err != nil || len(expired) == 0 {
		return nil, err
	}
	var again requeued
	var refused []badrows.Row
	err = b.write(ctx, "reclaim", func(ctx context.Context, db queue.DB) (err error) {
		again, jobs = requeued{}, nil
		refused, err = halve(ctx, db, expired, func(part []int64) error {
			got, err := queryJobs(ctx, db, b.sql["reclaim"], at, idList(part), look.JSON(), look.Since)
			if err == nil {
				jobs = append(jobs, got...)
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, job := range jobs {
			if job.Attempt < job.MaxAttempts { // otherwise the job is dead
				again.add(job.Queue)
			}
		}
		return b.bumpID(ctx, db, &again)
	})
	b.badRows.reclaims.Note(b.options.Logger, "reclaim", refused)
	if err != nil {
		return nil, err
	}
	b.wakeRequeued(true, again)
	return jobs, nil
}
