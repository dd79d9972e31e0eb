package explain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
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

// readJob reads the job with that ID, if there is one.
func readJob(ctx context.Context, q *inquiry, id int64) error {
	r, ok, err := q.Inspector.Job(ctx, id)
	if ok {
		q.job = &r
	}
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

// whyMissing returns why there is no job with that ID in PostgreSQL.
func whyMissing(ctx context.Context, q *inquiry, id int64) (reasons []Reason, err error) {
	schema := q.Server.Tables.Schema
	var archived string
	err = q.Server.Rows(ctx, "archived", func(r *sql.Rows) error { return r.Scan(&archived) }, id)
	right := "SELECT on " + schema + ".jobs_archive, as the owner of the schema has"
	if ok, err := q.tryOrAsk(ctx, "whether the job is in the archive", right, err); err != nil {
		return nil, err
	} else if ok && archived != "" {
		return []Reason{{ID: "archived", Level: ops.OK, Verdict: fmt.Sprintf("Job %d has ended as %s, and was moved to the archive.", id, archived),
			Evidence: []string{"it is in the table jobs_archive"}}}, nil
	}
	if reasons, err = whyHidden(ctx, q, fmt.Sprintf("job %d", id)); err != nil {
		return nil, err
	}
	var last int64
	err = q.Server.Row(ctx, "last_id", &last)
	right = "SELECT on the sequence " + schema + ".jobs_id_seq, as errand_observer of docs/roles.sql has"
	isKnown, err := q.tryOrAsk(ctx, "which ID was drawn last", right, err)
	if err != nil {
		return nil, err
	}
	if isKnown && id > last {
		never, err := findInOtherSchemas(ctx, q, id, last)
		return append(reasons, never...), err
	}
	writers, others, err := whyUncommitted(ctx, q, id)
	if err != nil {
		return nil, err
	}
	reasons = append(reasons, writers...)
	if !isKnown {
		return append(reasons, noSuchJob(id)), nil
	}
	r, err := whyGone(ctx, q, id, last)
	r.Evidence = append(r.Evidence, others...)
	return append(reasons, r), err
}

// whyHidden returns the reason if row security hides jobs from this role.
func whyHidden(ctx context.Context, q *inquiry, what string) ([]Reason, error) {
	var isActive bool
	err := q.Server.Row(ctx, "row_security", &isActive)
	if ok, err := q.tryOrNote(ctx, "whether row security hides jobs", err); !ok || !isActive {
		return nil, err
	}
	return []Reason{{ID: "hidden", Level: ops.Warn, Verdict: fmt.Sprintf("Row security hides jobs from this role, perhaps %s.", what),
		Evidence: []string{"the table of jobs has row security, and the role is " + q.Server.Role},
		Remedy:   "ask as a role that sees all jobs, or " + q.Server.DisableRowSecurity()}}, nil
}

// noSuchJob is the reason for an ID if nothing else is known.
func noSuchJob(id int64) Reason {
	return Reason{ID: "no-such-job", Level: ops.Warn, Verdict: fmt.Sprintf("There is no job %d.", id), Evidence: []string{
		"it was never committed, or it has ended and was pruned, or it is in a different database"}}
}

// whyGone is the reason for an ID that was drawn.
func whyGone(ctx context.Context, q *inquiry, id, last int64) (Reason, error) {
	r := Reason{ID: "gone", Level: ops.Warn, Verdict: fmt.Sprintf("There is no job %d, although its ID was given out.", id), Evidence: []string{
		fmt.Sprintf("the last ID that was given out is %d", last),
		"one of these has happened, and the database does not know which: its transaction was rolled back; it was a duplicate of a live job with its key; it has ended and was pruned; or it was deleted",
	}, Remedy: "look at the log of the program that enqueued it"}
	text, ok, err := findAuditedBulk(ctx, q, "jobs.delete", time.Time{})
	if ok {
		r.Evidence = append(r.Evidence, "many jobs were deleted together, perhaps this one, too: "+text)
	}
	return r, err
}

// neverExisted is the reason for an ID that was not given out.
func neverExisted(id, last int64) Reason {
	return Reason{ID: "never-existed", Level: ops.Warn, Verdict: fmt.Sprintf("There has never been a job %d here.", id),
		Evidence: []string{fmt.Sprintf("the last ID that was given out here is %d", last)}, Remedy: "look whether this is the right database"}
}

// findInOtherSchemas returns the reason for an ID that was never drawn, with the other schemas of
// errand.
func findInOtherSchemas(ctx context.Context, q *inquiry, id, last int64) ([]Reason, error) {
	r := neverExisted(id, last)
	schemas, err := listSchemas(ctx, q)
	for _, name := range schemas {
		r.Evidence = append(r.Evidence, "this database has tables of errand also in the schema "+name)
	}
	return []Reason{r}, err
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

// whyNothingWaits returns the reason for a queue or a kind of which no job is pending, or, unless
// isAll, of which none was found.
func whyNothingWaits(ctx context.Context, q *inquiry, isAll bool) ([]Reason, error) {
	asked := q.question
	if !isAll {
		return []Reason{{ID: "perhaps-waits", Level: ops.Warn, Verdict: "No job was found that waits, but not all could be looked at.",
			Remedy: "see what is not known; ask for a job by its ID"}}, nil
	}
	if asked.Kind != "" {
		if reasons, err := whyUnknownKind(ctx, q); err != nil || len(reasons) > 0 {
			return reasons, err
		}
	}
	if asked.Queue == "" {
		return []Reason{{ID: "nothing-waits", Level: ops.OK, Verdict: "No job of the kind " + asked.Kind + " waits.",
			Evidence: []string{"all pending jobs were looked at"}}}, nil
	}
	counts, err := q.Inspector.Counts(ctx)
	if err != nil {
		return nil, err
	}
	var evidence, names []string
	for _, c := range counts {
		names = append(names, c.Queue)
		if c.Queue == asked.Queue {
			evidence = append(evidence, fmt.Sprintf("%s: %s", c.Status, about(c)))
		}
	}
	if len(evidence) > 0 {
		of := "of the queue " + asked.Queue
		if asked.Kind != "" {
			of = "of the kind " + asked.Kind + " in the queue " + asked.Queue
		}
		return []Reason{{ID: "nothing-waits", Level: ops.OK, Verdict: "No job " + of + " waits.", Evidence: evidence}}, nil
	}
	r := Reason{ID: "empty-queue", Level: ops.Warn, Verdict: "No job is in the queue " + asked.Queue + ".", Remedy: "look at how the program that enqueues spells the queue"}
	if near := reader.Nearest(asked.Queue, names); near != "" {
		r.Evidence = append(r.Evidence, "queues with similar names: "+near)
	} else if len(names) > 0 {
		r.Evidence = append(r.Evidence, "queues with jobs: "+words.Enumerate(slices.Compact(names)))
	}
	return []Reason{r}, nil
}

// about returns a number of jobs, and says so if the backend has estimated it.
func about(c queue.StatusCount) string {
	if c.Exact {
		return words.Count(c.Jobs, "job")
	}
	return "about " + words.Count(c.Jobs, "job")
}

// nameFile returns the path of the file, as a fact.
func nameFile(ctx context.Context, f *reader.File) []string {
	if f.Find(ctx) == "" {
		return nil
	}
	return []string{"this file is " + f.Path}
}

// readNeverDrawn reports whether no job of the file has had that ID, and returns the last ID.
func readNeverDrawn(ctx context.Context, f *reader.File, id int64) (never bool, last int64, err error) {
	err = f.Row(ctx, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'errand_jobs'", &last)
	if errors.Is(err, sql.ErrNoRows) {
		return true, 0, nil
	}
	return id > last, last, err
}
