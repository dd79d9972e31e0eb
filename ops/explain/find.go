package explain

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/queue"
)

// findJob reads the job that the question is about. If there is none, it returns why.
func findJob(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.question.ID > 0 {
		return findByID(ctx, q, q.question.ID)
	}
	if q.Server != nil { // what follows would wait for a lock of the table
		if locked, err := readInTime(ctx, q, func(ctx context.Context) error { return probe(ctx, q) }); err != nil || len(locked) > 0 {
			return locked, err
		}
	}
	if q.question.Key != "" {
		return findByKey(ctx, q)
	}
	return findOldest(ctx, q)
}

// probe reads a job that there is not.
func probe(ctx context.Context, q *inquiry) error {
	_, _, err := q.Inspector.Job(ctx, math.MinInt64)
	return err
}

// readInTime calls read, which reads one job. It returns who has locked the whole table, if that is
// why the job cannot be read.
func readInTime(ctx context.Context, q *inquiry, read func(context.Context) error) ([]Reason, error) {
	inTime, cancel := context.WithTimeout(ctx, reader.CheckTimeout)
	defer cancel()
	err := read(inTime)
	if err == nil || inTime.Err() == nil || ctx.Err() != nil {
		return nil, err
	}
	if locked, lockErr := whyTableLocked(ctx, q); lockErr == nil && len(locked) > 0 {
		return locked, nil
	}
	return nil, err
}

func findByID(ctx context.Context, q *inquiry, id int64) ([]Reason, error) {
	read := func(ctx context.Context) error { return readJob(ctx, q, id) }
	if locked, err := readInTime(ctx, q, read); err != nil || len(locked) > 0 || q.job != nil {
		return locked, err
	}
	if entry, ok, err := findAudited(ctx, q, id, "jobs.delete"); err != nil {
		return nil, err
	} else if ok {
		return []Reason{{ID: "deleted", Level: ops.OK, Verdict: fmt.Sprintf("Job %d was deleted by a person.", id), Evidence: []string{entry}}}, nil
	}
	if q.File != nil {
		never, last, err := readNeverDrawn(ctx, q.File, id)
		if err != nil {
			return nil, err
		}
		if never {
			r := neverExisted(id, last)
			r.Evidence = append(r.Evidence, nameFile(ctx, q.File)...)
			return []Reason{r}, nil
		}
		r, err := whyGone(ctx, q, id, last)
		return []Reason{r}, err
	}
	if q.Server == nil {
		return []Reason{noSuchJob(id)}, nil
	}
	return whyMissing(ctx, q, id)
}

// findOldest reads the due job of the queue or the kind that has waited longest, or the next one
// that will be due.
func findOldest(ctx context.Context, q *inquiry) ([]Reason, error) {
	look := listOldest
	if q.Server != nil {
		look = readOldest
	}
	id, isAll, err := look(ctx, q)
	if err != nil {
		return nil, err
	}
	if id > 0 {
		return nil, readJob(ctx, q, id)
	}
	if q.Server != nil {
		if hidden, err := whyHidden(ctx, q, "one that waits"); err != nil || len(hidden) > 0 {
			return hidden, err
		}
	}
	reasons, err := whyNothingWaits(ctx, q, isAll)
	if err == nil {
		reasons, err = withSchedules(ctx, q, reasons)
	}
	if err != nil || q.Server == nil {
		return reasons, err
	}
	return withUncommitted(ctx, q, reasons)
}

// listOldest returns the pending job that is due first, of those that it reads through the backend;
// 0 if there is none. isAll is whether these are all.
func listOldest(ctx context.Context, q *inquiry) (id int64, isAll bool, err error) {
	filter := queue.Filter{Queue: q.question.Queue, Kind: q.question.Kind, Status: queue.StatusPending}
	var oldest *queue.Record
	isAll, err = q.list(ctx, filter, func(r queue.Record) bool {
		if oldest == nil || r.ScheduledAt.Before(oldest.ScheduledAt) || r.ScheduledAt.Equal(oldest.ScheduledAt) && r.ID < oldest.ID {
			oldest = &r
		}
		return true
	})
	if err != nil {
		return 0, false, err
	}
	if !isAll {
		q.unknown = append(q.unknown, fmt.Sprintf("pending jobs older than the newest %d", maxPages*1000))
	}
	if oldest == nil {
		return 0, isAll, nil
	}
	return oldest.ID, isAll, nil
}

// maxQueues is how many queues Job looks into for a job of a kind before it reads all pending
// jobs.
const maxQueues = 50

// readOldest returns the pending job in PostgreSQL that is due first, 0 if there is none. isAll is
// false if it is not known whether there is one.
func readOldest(ctx context.Context, q *inquiry) (id int64, isAll bool, err error) {
	name, kind := q.question.Queue, q.question.Kind
	queues := []string{name}
	if name == "" {
		queues = nil
		counts, err := q.Inspector.Counts(ctx)
		if err != nil {
			return 0, false, err
		}
		for _, c := range counts {
			if c.Status == queue.StatusPending {
				queues = append(queues, c.Queue)
			}
		}
		queues = queues[:min(len(queues), maxQueues)]
	}
	scan := func(r *sql.Rows) error { return r.Scan(&id) }
	for _, name := range queues {
		err := q.Server.Rows(ctx, "oldest", scan, name, kind, 100, maxDue)
		if ok, err := q.tryOrNote(ctx, "which job of the queue "+name+" waits", err); !ok || id > 0 {
			return id, ok, err
		}
	}
	if kind == "" {
		return 0, true, nil
	}
	err = q.Server.Rows(ctx, "oldest_of_kind", scan, kind, name) // others may wait before it
	isAll, err = q.tryOrNote(ctx, fmt.Sprintf("whether a job of the kind %s waits behind the first %d of its queue", kind, maxDue), err)
	return id, isAll, err
}

// whyUnreadable returns who has locked a table that Job reads, other than that of jobs, so that
// it cannot go on. A job that does not wait needs none of them.
func whyUnreadable(ctx context.Context, q *inquiry) ([]Reason, error) {
	locked, err := whyLocked(ctx, q, func(l reader.Locker) bool { return l.ExcludesReads && l.Table != reader.JobsTable })
	if err != nil || len(locked) == 0 || q.question.ID == 0 {
		return locked, err
	}
	if busy, err := readInTime(ctx, q, func(ctx context.Context) error { return readJob(ctx, q, q.question.ID) }); err != nil || len(busy) > 0 {
		return busy, err
	}
	if q.job != nil && q.job.Status != queue.StatusPending {
		return nil, nil
	}
	return locked, nil
}
