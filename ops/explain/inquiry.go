package explain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// inquiry is one look of [Job]: the question, and what the look has read so far.
type inquiry struct {
	*reader.Reader
	words.Program
	question Question
	at       time.Time     // now, by the backend's clock
	job      *queue.Record // nil if there is none
	rules    ruleSet
	pauses   []string // the paused kinds
	unknown  []string

	knowsWorkers bool
	workers      []driver.WorkerRecord
	claimers     []driver.WorkerRecord // those that would claim the job
	free         []driver.WorkerRecord // those of them that have room
	roles        []reader.WorkerRole   // read if no worker's claims succeed
	committing   []reader.Locker       // those whose commits wait for a standby
	held         *reader.HeldReports   // what keeps reports of workers waiting
	runs         []driver.RunningJob   // what they run now
	longest      time.Duration         // for how long the workers' longest run has lasted
}

// isCommitting reports whether the transaction is one whose commit waits for a standby. Ending its
// session undoes nothing, so it is no reason of its own.
func (q *inquiry) isCommitting(l reader.Locker) bool {
	return slices.ContainsFunc(q.committing, func(c reader.Locker) bool { return c.Pid == l.Pid })
}

// tryOrNote reports whether err is nil. It notes a missing right and a time-out as something that
// is not known, and returns every other error, but for reader.ErrNotTold.
func (q *inquiry) tryOrNote(ctx context.Context, what string, err error) (bool, error) {
	return q.tryOrAsk(ctx, what, "the right that docs/roles.sql grants for it", err)
}

// tryOrAsk is tryOrNote for facts of which it is known what right the role needs.
func (q *inquiry) tryOrAsk(ctx context.Context, what, right string, err error) (bool, error) {
	if err == nil {
		return true, nil
	}
	if errors.Is(err, reader.ErrNotTold) {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	code, who := reader.SQLState(err), "role"
	if errors.Is(err, fs.ErrPermission) { // of Redis
		code, who, right = reader.InsufficientPrivilege, "user", "the rights of docs/redis.acl"
	}
	if code == reader.NotSupported && !q.Server.Identity.IsStandby {
		return false, err
	}
	switch code {
	case reader.InsufficientPrivilege:
		what = fmt.Sprintf("%s: %v. To know it, ask as a %s that has %s", what, err, who, right)
	case reader.QueryCanceled:
		what = fmt.Sprintf("%s: the server had no answer within %v", what, reader.CheckTimeout)
	case reader.NotSupported: // the tables of workers and sleepers are unlogged
		what += ": a standby does not have it"
	case reader.LockNotAvailable:
		what += ": the statement would have to wait for a lock on a table"
	case reader.UndefinedTable, reader.UndefinedColumn, reader.UndefinedFunction:
		what = fmt.Sprintf("%s: the schema lacks something: %v. See the check schema of the doctor", what, err)
	default:
		return false, err
	}
	if !slices.Contains(q.unknown, what) {
		q.unknown = append(q.unknown, what)
	}
	return false, nil
}

// maxPages is how many pages of a list Job reads.
const maxPages = 10

// list calls see for the jobs that filter chooses, the newest first, until it returns false. isAll
// is whether there were no more.
func (q *inquiry) list(ctx context.Context, filter queue.Filter, see func(queue.Record) bool) (isAll bool, err error) {
	filter.Limit, filter.Bare = 1000, true
	if filter.Key != "" { // a bare list has no keys, and payloads may be long
		filter.Limit, filter.Bare = 20, false
	}
	for range maxPages {
		page, next, err := q.Inspector.Jobs(ctx, filter)
		if err != nil {
			return false, err
		}
		for _, r := range page {
			if !see(r) {
				return false, nil
			}
		}
		if next == 0 {
			return true, nil
		}
		filter.Before = next
	}
	return false, nil
}
