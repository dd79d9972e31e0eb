package ops

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/errandhq/errand/internal/spelling"
	"github.com/errandhq/errand/queue"
)

// find reads the job that the question is about. If there is none, it returns why.
func (f *facts) find(ctx context.Context) ([]Reason, error) {
	switch q := f.question; {
	case q.ID > 0:
		return f.findID(ctx, q.ID)
	case q.Key != "":
		return f.findKey(ctx)
	}
	return f.findOldest(ctx)
}

// read reads the job with that ID, if there is one.
func (f *facts) read(ctx context.Context, id int64) error {
	r, ok, err := f.inspector.Job(ctx, id)
	if ok {
		f.job = &r
	}
	return err
}

func (f *facts) findID(ctx context.Context, id int64) ([]Reason, error) {
	if err := f.read(ctx, id); err != nil || f.job != nil {
		return nil, err
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
			return []Reason{neverExisted(id, last)}, nil
		}
		return []Reason{gone(id, last)}, nil
	}
	if f.server == nil {
		return []Reason{noSuchJob(id)}, nil
	}
	return f.missing(ctx, id)
}

// missing returns why there is no job with that ID in PostgreSQL.
func (f *facts) missing(ctx context.Context, id int64) (reasons []Reason, err error) {
	var archived string
	err = f.server.rows(ctx, "archived", func(r *sql.Rows) error { return r.Scan(&archived) }, id)
	if ok, err := f.tryOrNote(ctx, "whether the job is in the archive", err); err != nil {
		return nil, err
	} else if ok && archived != "" {
		return []Reason{{ID: "archived", Level: OK, Verdict: fmt.Sprintf("Job %d has ended as %s, and was moved to the archive.", id, archived),
			Evidence: []string{"it is in the table jobs_archive"}}}, nil
	}
	var last int64
	err = f.server.row(ctx, "last_id", &last)
	isKnown, err := f.tryOrNote(ctx, "which ID was drawn last", err)
	if err != nil {
		return nil, err
	}
	if isKnown && id > last {
		return f.otherSchemas(ctx, id, last)
	}
	writers, err := f.lockers(ctx, "which transactions have written jobs", "writers")
	if err != nil {
		return nil, err
	}
	for _, w := range writers {
		if seconds(w.open) >= briefly {
			reasons = append(reasons, Reason{ID: "uncommitted", Level: Warn,
				Verdict:  fmt.Sprintf("An open transaction has written jobs, perhaps job %d: nobody sees them before it commits.", id),
				Evidence: []string{w.evidence()}, Remedy: "commit it, or " + w.remedy()})
		}
	}
	if !isKnown {
		return append(reasons, noSuchJob(id)), nil
	}
	return append(reasons, gone(id, last)), nil
}

// noSuchJob is the reason for an ID if nothing else is known.
func noSuchJob(id int64) Reason {
	return Reason{ID: "no-such-job", Level: Warn, Verdict: fmt.Sprintf("There is no job %d.", id), Evidence: []string{
		"it was never committed, or it has ended and was pruned, or it is in a different database"}}
}

// gone is the reason for an ID that was drawn.
func gone(id, last int64) Reason {
	return Reason{ID: "gone", Level: Warn, Verdict: fmt.Sprintf("There is no job %d, but its ID was drawn.", id), Evidence: []string{
		fmt.Sprintf("the last ID that was drawn is %d", last),
		"the transaction that enqueued it was rolled back; or a duplicate key kept it from being written; or it has ended and was pruned, or deleted. No trace tells which",
	}, Remedy: "look at the log of the program that enqueued it"}
}

// neverExisted is the reason for an ID that was not.
func neverExisted(id, last int64) Reason {
	return Reason{ID: "never-existed", Level: Warn, Verdict: fmt.Sprintf("There has never been a job %d here.", id),
		Evidence: []string{fmt.Sprintf("the last ID that was drawn here is %d", last)}, Remedy: "look whether this is the right database"}
}

// otherSchemas returns the reason for an ID that was never drawn, with the other schemas of errand.
func (f *facts) otherSchemas(ctx context.Context, id, last int64) ([]Reason, error) {
	r := neverExisted(id, last)
	var schemas []string
	err := f.server.rows(ctx, "schemas", func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		schemas = append(schemas, name)
		return err
	}, f.server.tables.Schema)
	if ok, err := f.tryOrNote(ctx, "which other schemas are errand's", err); !ok {
		return []Reason{r}, err
	}
	for _, name := range schemas {
		r.Evidence = append(r.Evidence, "this database has tables of errand also in the schema "+name)
	}
	return []Reason{r}, nil
}

// findKey reads the live job that has the key, or else the one that had it last.
func (f *facts) findKey(ctx context.Context) ([]Reason, error) {
	var newest *queue.Record
	var newestLive *queue.Record
	see := func(r queue.Record) bool {
		isLive := r.Status == queue.StatusPending || r.Status == queue.StatusRunning || r.Status == queue.StatusHeld
		if isLive && (newestLive == nil || newestLive.ID < r.ID) {
			newestLive = &r
		}
		if newest == nil || newest.ID < r.ID {
			newest = &r
		}
		return !isLive
	}
	if f.server != nil {
		var id int64
		err := f.server.rows(ctx, "live_key", func(r *sql.Rows) error { return r.Scan(&id) }, f.question.Key, f.question.Queue)
		if ok, err := f.tryOrNote(ctx, "which live job has the key", err); err != nil {
			return nil, err
		} else if ok && id > 0 {
			return nil, f.read(ctx, id)
		}
	}
	isAll, err := f.list(ctx, queue.Filter{Key: f.question.Key, Queue: f.question.Queue}, see)
	if err != nil {
		return nil, err
	}
	if found := cmp.Or(newestLive, newest); found != nil {
		return nil, f.read(ctx, found.ID)
	}
	r := Reason{ID: "no-such-key", Level: Warn, Verdict: fmt.Sprintf("No job has the key %q.", f.question.Key), Evidence: []string{
		"none was committed, or it has ended and was pruned"}, Remedy: "look at the program that enqueues it, and whether the key and the queue are spelled so"}
	if !isAll {
		r.Evidence = append(r.Evidence, fmt.Sprintf("looked at the live jobs, and at the newest of the others: %d pages", maxPages))
	}
	return []Reason{r}, nil
}

// findOldest reads the due job of the queue or the kind that has waited longest, or the next one
// that will be due.
func (f *facts) findOldest(ctx context.Context) ([]Reason, error) {
	if f.server != nil {
		id, ok, err := f.oldest(ctx)
		if err != nil {
			return nil, err
		}
		if ok && id > 0 {
			return nil, f.read(ctx, id)
		}
		return f.nothingWaits(ctx)
	}
	filter := queue.Filter{Queue: f.question.Queue, Kind: f.question.Kind, Status: queue.StatusPending}
	var oldest *queue.Record
	isAll, err := f.list(ctx, filter, func(r queue.Record) bool {
		if oldest == nil || r.ScheduledAt.Before(oldest.ScheduledAt) || r.ScheduledAt.Equal(oldest.ScheduledAt) && r.ID < oldest.ID {
			oldest = &r
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if oldest != nil {
		if !isAll {
			f.unknown = append(f.unknown, fmt.Sprintf("pending jobs older than the newest %d", maxPages*1000))
		}
		return nil, f.read(ctx, oldest.ID)
	}
	return f.nothingWaits(ctx)
}

// maxQueues is how many queues Explain looks into for a job of a kind.
const maxQueues = 50

// oldest returns the pending job in PostgreSQL that is due first.
func (f *facts) oldest(ctx context.Context) (id int64, ok bool, err error) {
	queues := []string{f.question.Queue}
	if f.question.Queue == "" {
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
		if len(queues) > maxQueues {
			f.unknown = append(f.unknown, fmt.Sprintf("whether queues behind the first %d have jobs of the kind", maxQueues))
			queues = queues[:maxQueues]
		}
	}
	for _, name := range queues {
		err := f.server.rows(ctx, "oldest", func(r *sql.Rows) error { return r.Scan(&id) }, name, f.question.Kind, 100, 10_000)
		if ok, err := f.tryOrNote(ctx, "which job of the queue "+name+" waits", err); !ok || id > 0 {
			return id, ok, err
		}
	}
	return 0, true, nil
}

// nothingWaits returns the reason for a queue or a kind of which no job is pending.
func (f *facts) nothingWaits(ctx context.Context) ([]Reason, error) {
	q := f.question
	if q.Queue == "" {
		return []Reason{{ID: "nothing-waits", Level: OK, Verdict: "No job of the kind " + q.Kind + " waits.",
			Evidence: []string{"the newest pending jobs of all queues were looked at"}}}, nil
	}
	counts, err := f.inspector.Counts(ctx)
	if err != nil {
		return nil, err
	}
	var evidence, names []string
	for _, c := range counts {
		names = append(names, c.Queue)
		if c.Queue == q.Queue {
			evidence = append(evidence, fmt.Sprintf("%d jobs are %s", c.Jobs, c.Status))
		}
	}
	if len(evidence) > 0 {
		of := "of the queue " + q.Queue
		if q.Kind != "" {
			of = "of the kind " + q.Kind + " in the queue " + q.Queue
		}
		return []Reason{{ID: "nothing-waits", Level: OK, Verdict: "No job " + of + " waits.", Evidence: evidence}}, nil
	}
	r := Reason{ID: "empty-queue", Level: Warn, Verdict: "No job is in the queue " + q.Queue + ".", Remedy: "look how the program that enqueues spells the queue"}
	if near := spelling.Nearest(q.Queue, slices.Compact(names)); len(near) > 0 {
		r.Evidence = append(r.Evidence, "queues with similar names: "+fmt.Sprint(near))
	}
	return []Reason{r}, nil
}
