package explain

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// findWriters returns the open transactions that have written jobs. Nobody sees those before they
// commit.
func findWriters(ctx context.Context, q *inquiry) ([]reader.Locker, error) {
	return findLockers(ctx, q, "which transactions have written jobs", seeLocks, "writers", reader.JobsTable, false)
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
		if later != 0 && w.BeganAfter(age) {
			others = append(others, fmt.Sprintf("an open transaction has written jobs, and not this one: it began after job %d, whose ID is higher, had started: %s",
				later, w.Evidence()))
			continue
		}
		reasons = append(reasons, Reason{ID: "uncommitted", Level: ops.Warn,
			Verdict:  fmt.Sprintf("An open transaction has written jobs, perhaps job %d. Nobody sees them before it commits.", id),
			Evidence: []string{w.Evidence()}, Remedy: w.RemedyFor("it and its jobs")})
	}
	return reasons, others, err
}

// findStartedAbove returns a job with an ID above id, and how long ago it started; 0 if none is
// known. The transaction that drew id had begun by then, because IDs are drawn in order. When that
// job was enqueued does not tell: created_at is when its own transaction began.
func findStartedAbove(ctx context.Context, q *inquiry, id int64) (later int64, age time.Duration, err error) {
	err = q.Server.Rows(ctx, "started_above", func(r *sql.Rows) error {
		var s float64
		err := r.Scan(&later, &s)
		age = words.Seconds(s)
		return err
	}, id)
	_, err = q.tryOrNote(ctx, "which jobs with higher IDs have started", err)
	return later, age, err
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
		r.Evidence = append(r.Evidence, "perhaps an open transaction has enqueued it, which nobody sees before that commits: "+w.Evidence())
	}
	if r.Remedy != "" {
		r.Remedy += ". "
	}
	r.Remedy += "If the transaction has it: " + list[0].RemedyFor("it and its jobs")
	return reasons, nil
}
