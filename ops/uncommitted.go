package ops

import (
	"context"
	"fmt"
)

// writers returns the open transactions that have written jobs. Nobody sees those before they
// commit.
func (f *facts) writers(ctx context.Context) ([]locker, error) {
	return f.lockers(ctx, "which transactions have written jobs", seeLocks, "writers", jobsTable, false)
}

// uncommitted returns a reason for each open transaction that may have enqueued the job.
func (f *facts) uncommitted(ctx context.Context, id int64) (reasons []Reason, err error) {
	list, err := f.writers(ctx)
	for _, w := range list {
		reasons = append(reasons, Reason{ID: "uncommitted", Level: Warn,
			Verdict:  fmt.Sprintf("An open transaction has written jobs, perhaps job %d. Nobody sees them before it commits.", id),
			Evidence: []string{w.evidence()}, Remedy: w.remedyFor("it and its jobs")})
	}
	return reasons, err
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
