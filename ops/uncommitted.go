package ops

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// findWriters returns the open transactions that have written jobs. Nobody sees those before they
// commit.
func findWriters(ctx context.Context, q *inquiry) ([]locker, error) {
	return findLockers(ctx, q, "which transactions have written jobs", seeLocks, "writers", jobsTable, false)
}

// whyUncommitted returns a reason for each open transaction that may have enqueued the job, and
// says of the others why they have not.
func whyUncommitted(ctx context.Context, q *inquiry, id int64) (reasons []Reason, others []string, err error) {
	later, age, err := findStartedAbove(ctx, q, id)
	if err != nil {
		return nil, nil, err
	}
	list, err := findWriters(ctx, q)
	for _, w := range list {
		if later != 0 && w.beganAfter(age) {
			others = append(others, fmt.Sprintf("an open transaction has written jobs, and not this one: it began after job %d, whose ID is higher, had started: %s",
				later, w.evidence()))
			continue
		}
		reasons = append(reasons, Reason{ID: "uncommitted", Level: Warn,
			Verdict:  fmt.Sprintf("An open transaction has written jobs, perhaps job %d. Nobody sees them before it commits.", id),
			Evidence: []string{w.evidence()}, Remedy: w.remedyFor("it and its jobs")})
	}
	return reasons, others, err
}

// findStartedAbove returns a job with an ID above id, and how long ago it started; 0 if none is
// known. The transaction that drew id had begun by then, because IDs are drawn in order. When that
// job was enqueued does not tell: created_at is when its own transaction began.
func findStartedAbove(ctx context.Context, q *inquiry, id int64) (later int64, age time.Duration, err error) {
	err = q.Server.rows(ctx, "started_above", func(r *sql.Rows) error {
		var s float64
		err := r.Scan(&later, &s)
		age = seconds(s)
		return err
	}, id)
	_, err = q.tryOrNote(ctx, "which jobs with higher IDs have started", err)
	return later, age, err
}

// beganAfter reports whether the transaction is known to have begun after something that happened
// so long ago. It leaves out a moment: the claim that started a job takes one. Of a prepared
// transaction only the time is known when it was prepared.
func (l locker) beganAfter(age time.Duration) bool {
	return l.pid != 0 && l.open.Valid && seconds(l.open.Float64)+briefly < age
}

// withUncommitted adds to the last reason why a job was not found that open transactions may
// hold such a job.
func withUncommitted(ctx context.Context, q *inquiry, reasons []Reason) ([]Reason, error) {
	list, err := findWriters(ctx, q)
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
