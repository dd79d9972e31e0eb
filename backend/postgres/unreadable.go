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
	// doubtLimit is the most jobs of a claim in doubt, whose payloads are read one by one.
	doubtLimit = 10
	// longestPayload is the longest payload, in bytes, that is read. A jsonb may be longer as text, but
	// none that errand has written is.
	longestPayload = 256 << 20
	// share is how many times a job's even share of a claim's bytes its payload may take in the table to
	// come with the claim. Longer ones are read one by one.
	share = 4
)

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

var errTooLong = fmt.Errorf("payload is longer than %d bytes", longestPayload)

// claimWhole claims what is due in those stretches, in order, and sees that what it returns has its payloads, of at most
// req.Bytes together. It reports whether nothing else is due there. A claim that failed with a data error or was not answered in time leaves what it asked
// for in doubt: that many jobs are claimed without payloads, a few at a time, and these read one by one.
func (b *Backend) claimWhole(ctx context.Context, req queue.ClaimRequest, all []stretch) (jobs []*queue.Job, exhausted bool, err error) {
	begun := time.Now()
	room := req.MaxBytes()
	doubt := b.doubtful.Load() > 0
	if !doubt {
		jobs, err = b.claimFrom(ctx, req, all, int64(share)*int64(room)/int64(req.Limit))
		if errors.Is(err, context.DeadlineExceeded) || isDataError(err) {
			b.doubtful.Store(int64(req.Limit))
		}
		doubt = isDataError(err)
	}
	if doubt {
		req.Limit = min(req.Limit, doubtLimit)
		jobs, err = b.claimFrom(ctx, req, all, -1)
	}
	if err != nil {
		return nil, false, err
	}
	inOrder(jobs, req.Queues)
	n, err := b.readRest(ctx, jobs, room, begun)
	b.giveBack(ctx, jobs[n:])
	if doubt {
		b.doubtful.Add(-int64(max(n, 1)))
	}
	if n > 0 {
		err = nil
	}
	return slices.Clip(jobs[:n]), !doubt && n == len(jobs) && n < req.Limit, err
}

// readRest reads the payloads that have not come with their claim, which began then. It returns how many
// of jobs, from the first, have theirs. It ends with the first that does not fit in room bytes with the others, that
// cannot be read, or that might be cut off by the end of ctx.
func (b *Backend) readRest(ctx context.Context, jobs []*queue.Job, room int, begun time.Time) (n int, err error) {
	deadline, timed := ctx.Deadline()
	for i, job := range jobs {
		if job.Payload == nil {
			late := timed && time.Since(begun) > time.Until(deadline)
			if i > 0 && late {
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

// burialTime bounds buryUnreadable, whose caller may hold the pool's last connection.
const burialTime = 10 * time.Second

// buryUnreadable makes the job dead that ClaimTx has failed to read, in a transaction of its own.
func (b *Backend) buryUnreadable(ctx context.Context, req queue.ClaimRequest) error {
	ctx, cancel := context.WithTimeout(ctx, burialTime)
	defer cancel()
	b.doubtful.Store(1)
	req.Lease, req.Worker = time.Minute, "burial of what cannot be read"
	jobs, _, err := b.claimWhole(ctx, req, whole(req.Queues))
	for _, job := range jobs {
		if job.Unreadable == nil {
			b.giveBack(ctx, jobs)
			continue
		}
		_, err = b.Settle(ctx, nil, queue.Outcome{Job: job, Action: queue.Dead, Err: job.Unreadable})
	}
	return err
}

// sizeOf is about how many bytes of memory the payload and the headers take.
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
	err := b.on(ctx, operation, nil, func(db queue.DB) error {
		payload, headers = nil, nil
		return each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&payload, &headers) }, b.sql.payload, job.ID, longestPayload)
	})
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
