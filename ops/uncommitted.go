package ops

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// writers returns the open transactions that have written jobs. Nobody sees those before they
// commit.
func (f *facts) writers(ctx context.Context) ([]locker, error) {
	return f.lockers(ctx, "which transactions have written jobs", seeLocks, "writers", jobsTable, false)
}

// uncommitted returns a reason for each open transaction that may have enqueued the job, and says
// of the others why they have not.
func (f *facts) uncommitted(ctx context.Context, id int64) (reasons []Reason, others []string, err error) {
	next, age, err := f.nextID(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	list, err := f.writers(ctx)
	for _, w := range list {
		if age > 0 && w.beganAfter(age) {
			others = append(others, fmt.Sprintf("an open transaction has written jobs, and not this one: it began after job %d, whose ID is higher, was enqueued: %s",
				next, w.evidence()))
			continue
		}
		reasons = append(reasons, Reason{ID: "uncommitted", Level: Warn,
			Verdict:  fmt.Sprintf("An open transaction has written jobs, perhaps job %d. Nobody sees them before it commits.", id),
			Evidence: []string{w.evidence()}, Remedy: w.remedyFor("it and its jobs")})
	}
	return reasons, others, err
}

// nextID returns the lowest ID above id that a visible job has, and how long ago this job was
// enqueued; 0 if there is none. It reads the next job only: a job that was moved here has an old
// time and a new ID.
func (f *facts) nextID(ctx context.Context, id int64) (next int64, age time.Duration, err error) {
	err = f.server.rows(ctx, "next_id", func(r *sql.Rows) error {
		var s float64
		err := r.Scan(&next, &s)
		age = seconds(s)
		return err
	}, id)
	_, err = f.tryOrNote(ctx, "when the job with the next ID was enqueued", err)
	return next, age, err
}

// beganAfter reports whether the transaction is known to have begun after something that happened
// so long ago. It leaves out a moment: a job's time is when its own transaction began. Of a
// prepared transaction only the time is known when it was prepared.
func (l locker) beganAfter(age time.Duration) bool {
	return l.pid != 0 && l.open.Valid && seconds(l.open.Float64)+briefly < age
}

// perhapsUncommitted adds to the last reason why a job was not found that open transactions may
// hold such a job.
func (f *facts) perhapsUncommitted(ctx context.Context, reasons []Reason) ([]Reason, error) {
	list, err := f.writers(ctx)
	if err != nil || len(list) == 0 {
		return reasons, err
	}
	r := &reasons[len(reasons)-1]
	for _, w := range list {
		r.Evidence = append(r.Evidence, "perhaps an open transaction has enqueued it, which nobody sees before that commits: "+w.evidence())
	}
	if r.Remedy != "" {
		r.Remedy += ". "
	}
	r.Remedy += "If the transaction has it: " + list[0].remedyFor("it and its jobs")
	return reasons, nil
}
