package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

// unreadLimit is the most jobs of a claim whose payloads are read one by one.
const unreadLimit = 10

// isDataError reports whether the server refused to work on the data of some row, such as a payload
// whose numbers it cannot print in a gigabyte. Such an error does not name the row.
func isDataError(err error) bool {
	code := sqlState(err)
	if len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "22", "54": // data exception, program limit exceeded
		return code != sequenceExhausted
	}
	return code == internalError // "invalid memory alloc request size" has no code of its own
}

const (
	sequenceExhausted = "2200H"
	internalError     = "XX000"
)

// claimUnread claims a few jobs without their payloads and headers, and reads these job by job, until
// the first that cannot be read: it comes back marked Unreadable, and the jobs after it are given back.
func (b *Backend) claimUnread(ctx context.Context, req queue.ClaimRequest, from []place) ([]*queue.Job, error) {
	req.Limit = min(req.Limit, unreadLimit)
	jobs, err := b.claimFrom(ctx, req, from, false)
	if err != nil {
		return nil, err
	}
	for i, job := range jobs {
		if err := b.readPayload(ctx, "claim", job); err != nil {
			b.giveBack(ctx, jobs)
			return nil, fmt.Errorf("%d of %d payloads read: %w", i, len(jobs), err)
		}
		if job.Unreadable != nil {
			b.giveBack(ctx, jobs[i+1:])
			jobs = jobs[:i+1]
			break
		}
	}
	b.doubtful.Add(-int64(max(len(jobs), 1)))
	return jobs, nil
}

// giveBackTimeout bounds giveBack, whose caller's context may have ended.
const giveBackTimeout = 2 * time.Second

// giveBack releases jobs that have been claimed and cannot be handed out. Where that fails, too, their
// leases run out.
func (b *Backend) giveBack(ctx context.Context, jobs []*queue.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	outcomes := make([]queue.Outcome, len(jobs))
	for i, job := range jobs {
		outcomes[i] = queue.Outcome{Job: job, Verb: queue.Release}
	}
	_, _ = b.Settle(ctx, nil, outcomes...) // with no jobs it does nothing
}

// readPayload reads the payload and the headers of job, or marks it Unreadable.
func (b *Backend) readPayload(ctx context.Context, verb string, job *queue.Job) error {
	var payload, headers []byte
	err := b.on(ctx, verb, nil, func(db queue.DB) error {
		return each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&payload, &headers) }, b.sql.payload, job.ID)
	})
	if isDataError(err) {
		job.Unreadable = fmt.Errorf("errand: payload or headers cannot be read: %w", err)
		return nil
	}
	job.Payload, job.Headers = payload, unmarshalHeaders(headers)
	return err
}
