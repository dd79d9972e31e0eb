package explain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
)

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
