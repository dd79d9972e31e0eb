package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// claimParts claims jobs part by part of the request's queues. While it has none, and other claims
// hold the lock of a queue, it looks at all queues again for busyTime. With an error of a row it
// returns the jobs that it has claimed before.
func (b *Backend) claimParts(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	for begun := time.Now(); ; {
		c := claim{b: b, req: req, known: b.rules.known(), rest: req.Queues}
		var err error
		for err == nil && len(c.rest) > 0 && !isFull(req, c.jobs) {
			err = c.nextPart(ctx)
		}
		switch {
		case isOfRow(err):
			return c.jobs, err
		case len(c.jobs) > 0:
			return c.jobs, nil
		case err != nil || !c.isBusy || time.Since(begun) > busyTime:
			return nil, err
		}
	}
}

// claimPlain claims jobs that are not ordered from queues that have no rules in that version.
func (b *Backend) claimPlain(ctx context.Context, req queue.ClaimRequest, version int64, wait patience) (jobs []*queue.Job, err error) {
	claimIn := func(all []span, recentFirst bool) claimQuery {
		q := b.spansClaim(all, recentFirst, version)
		q.wait = wait
		return q
	}
	r := b.rations.of(req, false)
	if r.isRationed() {
		if wait != noPatience { // the lock of a ration is held in this process only, and shortly
			wait = fullPatience
		}
		return b.claimRationed(ctx, req, r, wait, func(all []span) claimQuery { return claimIn(all, false) })
	}
	started := time.Now()
	jobs, _, err = b.claimWithPayloads(ctx, req, claimIn(wholeQueues(req.Queues), true))
	if err == nil {
		b.rationIfCostly(ctx, req, r, time.Since(started), jobs)
	}
	return jobs, err
}

// claimQuery is a statement that claims jobs. args returns its arguments: it returns jobs without
// their payload and headers if one of them takes more than longest bytes in the table. If last is
// not nil, the last row is no job, and last gets it; without a row, other claims hold the lock of
// the queue. limited is what a claim of a limited queue came to, and nil for others.
type claimQuery struct {
	text    string
	args    func(req queue.ClaimRequest, longest int64) []any
	last    func(row *queue.Job)
	limited *limitedEnd
	wait    patience
}

// spansClaim returns the statement that claims the jobs that are due in the spans, sql/claim.sql.
// With recentFirst it may claim only the jobs that have been due for two seconds at most, if there
// are any. It fails with foundOrdered if it comes to ordered jobs of a queue that is not known to
// have some, and with rulesChanged if there are later rules than that version's.
func (b *Backend) spansClaim(all []span, recentFirst bool, version int64) claimQuery {
	for i, s := range all {
		if _, isOrdered := b.ordered.get(s.queue, time.Now()); isOrdered && s.last == orderedPriority {
			all[i].last--
		}
	}
	queues, priorities, dues, ids, lasts, untils := spanArrays(all)
	return claimQuery{text: b.sql["claim"], args: func(req queue.ClaimRequest, longest int64) []any {
		return []any{
			queues, kinds(req), req.Limit, sqlkit.Microseconds(req.Lease), req.Worker, priorities, dues, ids, longest,
			lasts, untils, recentFirst, version,
		}
	}}
}

// runClaim runs a statement that claims jobs once.
func (b *Backend) runClaim(ctx context.Context, req queue.ClaimRequest, q claimQuery, longest int64) (jobs []*queue.Job, err error) {
	sent, after := time.Now(), b.unansweredClaims.lastFence()
	err = b.run(ctx, "claim", nil, func(db queue.DB) error {
		jobs, err = queryJobs(ctx, db, req.Worker, req.Limit, req.MaxBytes(), q.text, q.args(req, longest)...)
		if err != nil && !isRefused(err) && !isUnsent(err) {
			b.unansweredClaims.noteUnanswered(req, sent, after)
		}
		if err == nil && q.last != nil && len(jobs) == 0 {
			err = errClaimsBusy
		}
		return q.wait.asLockBusy(asOrderedRace(err))
	})
	if last := len(jobs) - 1; err == nil && q.last != nil {
		q.last(jobs[last])
		jobs = jobs[:last]
	}
	switch {
	case errors.Is(err, queue.ErrUnknown): // the commit was not answered
		b.unansweredClaims.noteUnanswered(req, sent, after)
	case err == nil && len(jobs) > 0:
		b.unansweredClaims.noteAnswered(req.Worker, jobs)
	}
	return jobs, err
}

// queryJobs reads the columns that sql/claim.sql returns. It expects about size jobs, and drops
// payloads and headers once they take more than room bytes together.
func queryJobs(ctx context.Context, db queue.DB, worker string, size, room int, query string, args ...any) ([]*queue.Job, error) {
	jobs := make([]*queue.Job, 0, min(size, 1000))
	var headers []byte
	var priority, attempt, most int64        // database/sql copies these types and prints and parses others
	var key, lastError, group sql.NullString // NULL for nearly all jobs, which costs less than ""
	err := sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error {
		job := &queue.Job{Worker: worker} // alone: in a block, one slow job would keep all payloads
		err := rows.Scan(&job.ID, &job.Queue, &job.Kind, (*[]byte)(&job.Payload), &priority, &job.ScheduledAt,
			&attempt, &most, &job.Fence, &job.CreatedAt, &key, &headers, &lastError, &group)
		if err != nil {
			return err
		}
		job.Priority, job.Attempt, job.MaxAttempts = int32(priority), int(attempt), int(most)
		job.Key, job.LastError, job.Group = key.String, lastError.String, group.String
		noteOrdered(job)
		if room -= len(job.Payload) + len(headers); room < 0 && len(jobs) > 0 {
			job.Payload, headers = nil, nil
		}
		job.Headers = sqlkit.DecodeHeaders(headers)
		jobs = append(jobs, job)
		return nil
	}, query, args...)
	return jobs, err
}

// noteOrdered makes a job ordered that has the priority of ordered jobs in the table.
func noteOrdered(job *queue.Job) {
	if job.Priority == orderedPriority {
		job.Priority, job.Ordered = 0, true
	}
}

// sortClaimed sorts claimed jobs. The statement returns them as they lie in the table.
func sortClaimed(jobs []*queue.Job, queues []string) {
	slices.SortFunc(jobs, func(a, b *queue.Job) int {
		if a.Queue != b.Queue {
			return cmp.Compare(slices.Index(queues, a.Queue), slices.Index(queues, b.Queue))
		}
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.ScheduledAt.Compare(b.ScheduledAt), cmp.Compare(a.ID, b.ID))
	})
}

// kinds returns the parameter for the request's kinds, nil for all.
func kinds(req queue.ClaimRequest) any {
	if len(req.Kinds) == 0 {
		return nil
	}
	return textArray(req.Kinds)
}
