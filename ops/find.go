package ops

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
)

// find reads the job that the question is about. If there is none, it returns why.
func (f *facts) find(ctx context.Context) ([]Reason, error) {
	if f.question.ID > 0 {
		return f.findID(ctx, f.question.ID)
	}
	if f.server != nil { // what follows would wait for a lock of the table
		if locked, err := f.inTime(ctx, f.probe); err != nil || len(locked) > 0 {
			return locked, err
		}
	}
	if f.question.Key != "" {
		return f.findKey(ctx)
	}
	return f.findOldest(ctx)
}

// probe reads a job that there is not.
func (f *facts) probe(ctx context.Context) error {
	_, _, err := f.inspector.Job(ctx, math.MinInt64)
	return err
}

// read reads the job with that ID, if there is one.
func (f *facts) read(ctx context.Context, id int64) error {
	r, ok, err := f.inspector.Job(ctx, id)
	if ok {
		f.job = &r
	}
	return err
}

// inTime calls read, which reads one job. It returns who has locked the whole table, if that is why
// the job cannot be read.
func (f *facts) inTime(ctx context.Context, read func(context.Context) error) ([]Reason, error) {
	inTime, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := read(inTime)
	if err == nil || inTime.Err() == nil || ctx.Err() != nil {
		return nil, err
	}
	if locked, lockErr := f.tableLocked(ctx); lockErr == nil && len(locked) > 0 {
		return locked, nil
	}
	return nil, err
}

func (f *facts) findID(ctx context.Context, id int64) ([]Reason, error) {
	read := func(ctx context.Context) error { return f.read(ctx, id) }
	if locked, err := f.inTime(ctx, read); err != nil || len(locked) > 0 || f.job != nil {
		return locked, err
	}
	if entry, ok, err := f.audited(ctx, id, "jobs.delete"); err != nil {
		return nil, err
	} else if ok {
		return []Reason{{ID: "deleted", Level: OK, Verdict: fmt.Sprintf("Job %d was deleted by a person.", id), Evidence: []string{entry}}}, nil
	}
	if f.file != nil {
		never, last, err := f.file.neverDrawn(ctx, id)
		if err != nil {
			return nil, err
		}
		if never {
			r := neverExisted(id, last)
			r.Evidence = append(r.Evidence, f.file.named(ctx)...)
			return []Reason{r}, nil
		}
		r, err := f.gone(ctx, id, last)
		return []Reason{r}, err
	}
	if f.server == nil {
		return []Reason{noSuchJob(id)}, nil
	}
	return f.missing(ctx, id)
}

// missing returns why there is no job with that ID in PostgreSQL.
func (f *facts) missing(ctx context.Context, id int64) (reasons []Reason, err error) {
	schema := f.server.tables.Schema
	var archived string
	err = f.server.rows(ctx, "archived", func(r *sql.Rows) error { return r.Scan(&archived) }, id)
	right := "SELECT on " + schema + ".jobs_archive, as the owner of the schema has"
	if ok, err := f.tryOrAsk(ctx, "whether the job is in the archive", right, err); err != nil {
		return nil, err
	} else if ok && archived != "" {
		return []Reason{{ID: "archived", Level: OK, Verdict: fmt.Sprintf("Job %d has ended as %s, and was moved to the archive.", id, archived),
			Evidence: []string{"it is in the table jobs_archive"}}}, nil
	}
	if reasons, err = f.hidden(ctx, fmt.Sprintf("job %d", id)); err != nil {
		return nil, err
	}
	var last int64
	err = f.server.row(ctx, "last_id", &last)
	right = "SELECT on the sequence " + schema + ".jobs_id_seq, as errand_observer of docs/roles.sql has"
	isKnown, err := f.tryOrAsk(ctx, "which ID was drawn last", right, err)
	if err != nil {
		return nil, err
	}
	if isKnown && id > last {
		never, err := f.otherSchemas(ctx, id, last)
		return append(reasons, never...), err
	}
	writers, others, err := f.uncommitted(ctx, id)
	if err != nil {
		return nil, err
	}
	reasons = append(reasons, writers...)
	if !isKnown {
		return append(reasons, noSuchJob(id)), nil
	}
	r, err := f.gone(ctx, id, last)
	r.Evidence = append(r.Evidence, others...)
	return append(reasons, r), err
}

// disableRowSecurity is how to let every role see all jobs.
func (s *server) disableRowSecurity() string {
	return "ALTER TABLE " + s.tables.Schema + ".jobs DISABLE ROW LEVEL SECURITY"
}

// hidden returns the reason if row security hides jobs from this role.
func (f *facts) hidden(ctx context.Context, what string) ([]Reason, error) {
	var isActive bool
	err := f.server.row(ctx, "row_security", &isActive)
	if ok, err := f.tryOrNote(ctx, "whether row security hides jobs", err); !ok || !isActive {
		return nil, err
	}
	return []Reason{{ID: "hidden", Level: Warn, Verdict: fmt.Sprintf("Row security hides jobs from this role, perhaps %s.", what),
		Evidence: []string{"the table of jobs has row security, and the role is " + f.server.role},
		Remedy:   "ask as a role that sees all jobs, or " + f.server.disableRowSecurity()}}, nil
}

// noSuchJob is the reason for an ID if nothing else is known.
func noSuchJob(id int64) Reason {
	return Reason{ID: "no-such-job", Level: Warn, Verdict: fmt.Sprintf("There is no job %d.", id), Evidence: []string{
		"it was never committed, or it has ended and was pruned, or it is in a different database"}}
}

// gone is the reason for an ID that was drawn.
func (f *facts) gone(ctx context.Context, id, last int64) (Reason, error) {
	r := Reason{ID: "gone", Level: Warn, Verdict: fmt.Sprintf("There is no job %d, although its ID was given out.", id), Evidence: []string{
		fmt.Sprintf("the last ID that was given out is %d", last),
		"one of these has happened, and the database does not know which: its transaction was rolled back; it was a duplicate of a live job with its key; it has ended and was pruned; or it was deleted",
	}, Remedy: "look at the log of the program that enqueued it"}
	text, ok, err := f.auditedBulk(ctx, "jobs.delete", time.Time{})
	if ok {
		r.Evidence = append(r.Evidence, "many jobs were deleted together, perhaps this one, too: "+text)
	}
	return r, err
}

// neverExisted is the reason for an ID that was not given out.
func neverExisted(id, last int64) Reason {
	return Reason{ID: "never-existed", Level: Warn, Verdict: fmt.Sprintf("There has never been a job %d here.", id),
		Evidence: []string{fmt.Sprintf("the last ID that was given out here is %d", last)}, Remedy: "look whether this is the right database"}
}

// otherSchemas returns the reason for an ID that was never drawn, with the other schemas of errand.
func (f *facts) otherSchemas(ctx context.Context, id, last int64) ([]Reason, error) {
	r := neverExisted(id, last)
	schemas, err := f.schemas(ctx)
	for _, name := range schemas {
		r.Evidence = append(r.Evidence, "this database has tables of errand also in the schema "+name)
	}
	return []Reason{r}, err
}

// findOldest reads the due job of the queue or the kind that has waited longest, or the next one
// that will be due.
func (f *facts) findOldest(ctx context.Context) ([]Reason, error) {
	look := f.listOldest
	if f.server != nil {
		look = f.oldest
	}
	id, isAll, err := look(ctx)
	if err != nil {
		return nil, err
	}
	if id > 0 {
		return nil, f.read(ctx, id)
	}
	if f.server != nil {
		if hidden, err := f.hidden(ctx, "one that waits"); err != nil || len(hidden) > 0 {
			return hidden, err
		}
	}
	reasons, err := f.nothingWaits(ctx, isAll)
	if err == nil {
		reasons, err = f.withSchedules(ctx, reasons)
	}
	if err != nil || f.server == nil {
		return reasons, err
	}
	return f.perhapsUncommitted(ctx, reasons)
}

// listOldest returns the pending job that is due first, of those that it reads through the backend;
// 0 if there is none. isAll is whether these are all.
func (f *facts) listOldest(ctx context.Context) (id int64, isAll bool, err error) {
	filter := queue.Filter{Queue: f.question.Queue, Kind: f.question.Kind, Status: queue.StatusPending}
	var oldest *queue.Record
	isAll, err = f.list(ctx, filter, func(r queue.Record) bool {
		if oldest == nil || r.ScheduledAt.Before(oldest.ScheduledAt) || r.ScheduledAt.Equal(oldest.ScheduledAt) && r.ID < oldest.ID {
			oldest = &r
		}
		return true
	})
	if err != nil {
		return 0, false, err
	}
	if !isAll {
		f.unknown = append(f.unknown, fmt.Sprintf("pending jobs older than the newest %d", maxPages*1000))
	}
	if oldest == nil {
		return 0, isAll, nil
	}
	return oldest.ID, isAll, nil
}

// maxQueues is how many queues Explain looks into for a job of a kind before it reads all pending
// jobs.
const maxQueues = 50

// oldest returns the pending job in PostgreSQL that is due first, 0 if there is none. isAll is
// false if it is not known whether there is one.
func (f *facts) oldest(ctx context.Context) (id int64, isAll bool, err error) {
	name, kind := f.question.Queue, f.question.Kind
	queues := []string{name}
	if name == "" {
		queues = nil
		counts, err := f.inspector.Counts(ctx)
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
		err := f.server.rows(ctx, "oldest", scan, name, kind, 100, maxDue)
		if ok, err := f.tryOrNote(ctx, "which job of the queue "+name+" waits", err); !ok || id > 0 {
			return id, ok, err
		}
	}
	if kind == "" {
		return 0, true, nil
	}
	err = f.server.rows(ctx, "oldest_of_kind", scan, kind, name) // others may wait before it
	isAll, err = f.tryOrNote(ctx, fmt.Sprintf("whether a job of the kind %s waits behind the first %d of its queue", kind, maxDue), err)
	return id, isAll, err
}

// nothingWaits returns the reason for a queue or a kind of which no job is pending, or, unless
// isAll, of which none was found.
func (f *facts) nothingWaits(ctx context.Context, isAll bool) ([]Reason, error) {
	q := f.question
	if !isAll {
		return []Reason{{ID: "perhaps-waits", Level: Warn, Verdict: "No job was found that waits, but not all could be looked at.",
			Remedy: "see what is not known; ask for a job by its ID"}}, nil
	}
	if q.Kind != "" {
		if reasons, err := f.unknownKind(ctx); err != nil || len(reasons) > 0 {
			return reasons, err
		}
	}
	if q.Queue == "" {
		return []Reason{{ID: "nothing-waits", Level: OK, Verdict: "No job of the kind " + q.Kind + " waits.",
			Evidence: []string{"all pending jobs were looked at"}}}, nil
	}
	counts, err := f.inspector.Counts(ctx)
	if err != nil {
		return nil, err
	}
	var evidence, names []string
	for _, c := range counts {
		names = append(names, c.Queue)
		if c.Queue == q.Queue {
			evidence = append(evidence, fmt.Sprintf("%s: %s", c.Status, about(c)))
		}
	}
	if len(evidence) > 0 {
		of := "of the queue " + q.Queue
		if q.Kind != "" {
			of = "of the kind " + q.Kind + " in the queue " + q.Queue
		}
		return []Reason{{ID: "nothing-waits", Level: OK, Verdict: "No job " + of + " waits.", Evidence: evidence}}, nil
	}
	r := Reason{ID: "empty-queue", Level: Warn, Verdict: "No job is in the queue " + q.Queue + ".", Remedy: "look at how the program that enqueues spells the queue"}
	if near := nearest(q.Queue, names); near != "" {
		r.Evidence = append(r.Evidence, "queues with similar names: "+near)
	} else if len(names) > 0 {
		r.Evidence = append(r.Evidence, "queues with jobs: "+enumerate(slices.Compact(names)))
	}
	return []Reason{r}, nil
}

// about returns a number of jobs, and says so if the backend has estimated it.
func about(c queue.StatusCount) string {
	if c.Exact {
		return count(c.Jobs, "job")
	}
	return "about " + count(c.Jobs, "job")
}
