package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

const (
	// readSinglyLimit is the most jobs of a claim whose payloads are read one by one.
	readSinglyLimit = 10
	// longestPayload is the longest payload, in bytes, that is read. A jsonb may be longer as text,
	// but none that errand has written is.
	longestPayload = 256 << 20
	// maxShareFactor is how many times an even share of a claim's bytes a payload may take in the
	// table to come with the claim. Longer ones are read one by one.
	maxShareFactor = 4
)

var errTooLong = fmt.Errorf("payload is longer than %d bytes", longestPayload)

// claimWithPayloads claims jobs and returns them in order with their payloads, of at most req.Bytes
// together. It reports whether they are all that the claim can find. After a claim that failed with
// a data error, or was not answered in time, as many jobs as it asked for are claimed without
// payloads, a few at a time, and their payloads are read one by one.
func (b *Backend) claimWithPayloads(ctx context.Context, req queue.ClaimRequest, q claimQuery) (jobs []*queue.Job, exhausted bool, err error) {
	begun := time.Now()
	for readSingly := b.readSingly.Load() > 0; ; readSingly = true {
		longest := b.longestInClaim(req)
		if readSingly {
			req.Limit, longest = min(req.Limit, readSinglyLimit), -1
		}
		var rows *jobRows
		sent := b.unansweredClaims.begin(req)
		err = b.run(ctx, "claim", nil, func(db queue.DB) error {
			rows = newJobRows(req.Worker, req.Limit, req.MaxBytes())
			err := sqlkit.QueryRows(ctx, db, rows.scan, q.text, q.args(req, longest)...)
			sent.noteTry(err)
			return q.check(rows.jobs, err)
		})
		if err == nil {
			jobs = q.jobsOf(rows.jobs)
		}
		sent.noteEnd(jobs, err)
		isRefused := isDataError(err)
		if !readSingly && (isRefused || errors.Is(err, context.DeadlineExceeded)) {
			b.readSingly.Store(int64(req.Limit))
		}
		switch {
		case err == nil:
			return b.readPayloads(ctx, req, jobs, readSingly, begun)
		case readSingly || !isRefused:
			return nil, false, err
		}
	}
}

// longestInClaim returns how many bytes a job's payload and headers may take in the table to come
// with its claim.
func (b *Backend) longestInClaim(req queue.ClaimRequest) int64 {
	longest := maxShareFactor * int64(req.MaxBytes()) / int64(req.Limit)
	if b.slow.areKnown() {
		return min(longest, shortPayload)
	}
	return longest
}

// readPayloads reads the payloads that did not come with their claim, which began at that time, and
// releases the jobs whose payloads it does not read. It returns the others in order, and whether
// they are all that the claim can find.
func (b *Backend) readPayloads(ctx context.Context, req queue.ClaimRequest, jobs []*queue.Job, readSingly bool, begun time.Time) (read []*queue.Job, exhausted bool, err error) {
	sortClaimed(jobs, req.Queues)
	n, err := b.readMissing(ctx, jobs, req.MaxBytes(), begun)
	err = b.releaseUnread(ctx, jobs[n:], n == 0, err)
	if readSingly {
		b.readSingly.Add(-int64(max(n, 1)))
	}
	if n > 0 {
		err = nil
	}
	return slices.Clip(jobs[:n]), !readSingly && n == len(jobs) && n < req.Limit, err
}

// readMissing reads the payloads that did not come with their claim, which began at that time. It
// returns how many jobs, from the first on, have their payloads. It stops at a payload that does
// not fit in room bytes with the others, at one that cannot be read, if ctx may leave no time for
// it, or at one that is known to be slow and is not the first.
func (b *Backend) readMissing(ctx context.Context, jobs []*queue.Job, room int, begun time.Time) (n int, err error) {
	deadline, timed := ctx.Deadline()
	for i, job := range jobs {
		if job.Payload == nil {
			isLate := timed && time.Since(begun) > time.Until(deadline)
			if i > 0 && (isLate || b.slow.has(job.ID)) {
				return i, nil
			}
			if err := b.readPayload(ctx, "claim", job); err != nil {
				return i, fmt.Errorf("%d of %d payloads read: %w", i, len(jobs), err)
			}
		}
		if room -= sizeOf(job); i > 0 && room < 0 {
			return i, nil
		}
		if job.Unreadable != nil {
			return i + 1, nil
		}
	}
	return len(jobs), nil
}

// sizeOf returns about how many bytes of memory the payload and the headers take.
func sizeOf(job *queue.Job) int {
	size := len(job.Payload)
	for k, v := range job.Headers {
		size += len(k) + len(v)
	}
	return size
}

// readPayload reads the payload and the headers of job, or marks it Unreadable.
func (b *Backend) readPayload(ctx context.Context, operation string, job *queue.Job) error {
	var payload, headers []byte
	err := b.run(ctx, operation, nil, func(db queue.DB) error {
		payload, headers = nil, nil
		return sqlkit.QueryRows(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&payload, &headers) }, b.sql["payload"], job.ID, longestPayload)
	})
	if err == nil {
		b.slow.remove(job.ID)
	}
	if err == nil && payload == nil {
		err = errTooLong
	}
	if isDataError(err) || errors.Is(err, errTooLong) {
		job.Unreadable = fmt.Errorf("errand: payload or headers cannot be read: %w", err)
		return nil
	}
	job.Payload, job.Headers = payload, sqlkit.DecodeHeaders(headers)
	return err
}
