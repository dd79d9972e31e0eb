package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// maxClaimed is the most jobs of one claim, or of one Reclaim.
const maxClaimed = 100_000

// Claim implements [queue.Consumer], part by part of the request's queues (see claim_parts.go).
// sql/claim.sql scans the queues from their heads unless claims are rationed (see ration.go).
// Limited queues have sql/claim_limited.sql. It takes at most 100,000 jobs. Jobs that the database
// refuses to change are logged, and passed over for a minute. While it has none, and other claims
// hold the lock of a queue, it looks at all queues again for busyTime.
func (b *Backend) Claim(ctx context.Context, req queue.ClaimRequest) (jobs []*queue.Job, err error) {
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	slots := req.Limit - req.Ahead
	req.Limit = min(req.Limit, maxClaimed)
	req.Ahead, req.Bytes = max(req.Limit-slots, 0), min(req.MaxBytes(), maxMessage)
	if err := b.releaseUnanswered(ctx, req); err != nil {
		return nil, err
	}
	for round, begun := 1, time.Now(); ; {
		c := claim{b: b, req: req, known: b.rules.known(), rest: req.Queues}
		unlock := b.lockBadClaims(ctx)
		for err = nil; err == nil && len(c.rest) > 0 && !isFull(req, c.jobs); {
			err = c.claimPart(ctx)
		}
		unlock()
		isBad := isOfRow(err) && ctx.Err() == nil
		mayPass := isBad && b.noteBadClaims(ctx, req)
		switch {
		case len(c.jobs) > 0: // they start at once; the next claim passes over the bad row
			return c.jobs, nil
		case mayPass && round < badRounds:
			round, begun = round+1, time.Now()
		case err != nil || !c.isBusy || time.Since(begun) > busyTime:
			return nil, err
		}
	}
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
func (b *Backend) spansClaim(all []span, recentFirst bool, version int64, wait patience) claimQuery {
	for i, s := range all {
		if _, isOrdered := b.ordered.get(s.queue, time.Now()); isOrdered && s.last == orderedPriority {
			all[i].last--
		}
	}
	queues, priorities, dues, ids, lasts, untils := spanArrays(all)
	return claimQuery{text: b.sql["claim"], wait: wait, args: func(req queue.ClaimRequest, longest int64) []any {
		return []any{
			queues, kinds(req), req.Limit, sqlkit.Microseconds(req.Lease), req.Worker, priorities, dues, ids, longest,
			lasts, untils, recentFirst, version,
		}
	}}
}

// check returns the error of the statement's run with these rows, nil if they are its answer.
func (q claimQuery) check(rows []*queue.Job, err error) error {
	if err == nil && q.last != nil && len(rows) == 0 {
		err = errClaimsBusy
	}
	return q.wait.asLockBusy(asOrderedRace(err))
}

// jobsOf returns the jobs among the rows, which are the statement's answer.
func (q claimQuery) jobsOf(rows []*queue.Job) []*queue.Job {
	if q.last == nil {
		return rows
	}
	last := len(rows) - 1
	q.last(rows[last])
	return rows[:last]
}

// jobRows are jobs in the columns that sql/claim.sql returns.
type jobRows struct {
	jobs   []*queue.Job
	worker string // the jobs' Worker
	room   int    // once payloads and headers take more bytes together, they are dropped

	headers                 []byte
	priority, attempt, most int64          // database/sql copies these types and prints and parses others
	key, lastError, group   sql.NullString // NULL for nearly all jobs, which costs less than ""
}

// newJobRows returns jobRows for about size jobs.
func newJobRows(worker string, size, room int) *jobRows {
	return &jobRows{jobs: make([]*queue.Job, 0, min(size, 1000)), worker: worker, room: room}
}

// scan reads a row.
func (r *jobRows) scan(rows *sql.Rows) error {
	job := &queue.Job{Worker: r.worker} // alone: in a block, one slow job would keep all payloads
	err := rows.Scan(&job.ID, &job.Queue, &job.Kind, (*[]byte)(&job.Payload), &r.priority, &job.ScheduledAt,
		&r.attempt, &r.most, &job.Fence, &job.CreatedAt, &r.key, &r.headers, &r.lastError, &r.group)
	if err != nil {
		return err
	}
	job.Priority, job.Attempt, job.MaxAttempts = int32(r.priority), int(r.attempt), int(r.most)
	job.Key, job.LastError, job.Group = r.key.String, r.lastError.String, r.group.String
	noteOrdered(job)
	if r.room -= len(job.Payload) + len(r.headers); r.room < 0 && len(r.jobs) > 0 {
		job.Payload, r.headers = nil, nil
	}
	job.Headers = sqlkit.DecodeHeaders(r.headers)
	r.jobs = append(r.jobs, job)
	return nil
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
