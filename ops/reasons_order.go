package ops

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/errandhq/errand/queue"
)

// ordered returns which job of the same line comes first.
func (f *facts) ordered(ctx context.Context) ([]Reason, error) {
	j := f.job
	if !j.Ordered {
		return nil, nil
	}
	first, ok, err := f.firstOfLine(ctx)
	if err != nil || !ok || first.ID == j.ID {
		return nil, err
	}
	r := Reason{Level: OK, Remedy: command("explain", first.ID), Evidence: []string{
		fmt.Sprintf("job %d, of the kind %s, is %s, and has used %d of %d attempts", first.ID, first.Kind, first.Status, first.Attempt, first.MaxAttempts)}}
	behind := fmt.Sprintf("Job %d waits for job %d of its group %q, ", j.ID, first.ID, j.Group)
	switch {
	case first.Status == queue.StatusHeld:
		r.ID, r.Level, r.Verdict = "behind-held", Fail, behind+"which is held."
		r.Remedy = "mend what made it fail, then " + command("jobs", "retry", first.ID) + ". Or " + command("jobs", "cancel", first.ID)
	case first.Status == queue.StatusRunning:
		r.ID, r.Verdict = "behind-running", behind+"which runs."
	case first.Attempt > 0 && first.ScheduledAt.After(f.at):
		r.ID, r.Level, r.Verdict = "behind-back-off", Warn, behind+fmt.Sprintf("which has failed and is tried again in %v.", short(first.ScheduledAt.Sub(f.at)))
	default:
		r.ID, r.Verdict = "behind-pending", behind+"which has not run yet."
	}
	return []Reason{r}, nil
}

// firstOfLine returns the first live ordered job of the job's group.
func (f *facts) firstOfLine(ctx context.Context) (first queue.Record, ok bool, err error) {
	if f.server != nil {
		var id int64
		err := f.server.rows(ctx, "first_of_line", func(r *sql.Rows) error { return r.Scan(&id) }, f.job.Queue, f.job.Group)
		if ok, err := f.tryOrNote(ctx, "which job of its group comes first", err); !ok || id == 0 {
			return first, false, err
		}
		return f.inspector.Job(ctx, id)
	}
	for _, status := range []queue.Status{queue.StatusRunning, queue.StatusHeld, queue.StatusPending} {
		isAll, err := f.list(ctx, queue.Filter{Queue: f.job.Queue, Group: f.job.Group, Status: status}, func(r queue.Record) bool {
			if r.Ordered && (!ok || r.ID < first.ID || r.Status == queue.StatusRunning) {
				first, ok = r, true
			}
			return status != queue.StatusRunning
		})
		if err != nil || ok && first.Status == queue.StatusRunning {
			return first, ok, err
		}
		if !isAll && status != queue.StatusRunning {
			f.unknown = append(f.unknown, "jobs of its group that are older than those that were read")
		}
	}
	return first, ok, nil
}

// manyAhead is how many jobs Explain counts before the job.
const manyAhead = 1000

// ahead returns how many due jobs come before the job.
func (f *facts) ahead(ctx context.Context) ([]Reason, error) {
	j := f.job
	if j.Ordered { // the groups take turns
		return nil, nil
	}
	n := 0
	if f.server != nil {
		err := f.server.rows(ctx, "ahead", func(r *sql.Rows) error { return r.Scan(&n) }, j.ID)
		if ok, err := f.tryOrNote(ctx, "how many jobs come before it", err); !ok {
			return nil, err
		}
	} else {
		_, err := f.list(ctx, queue.Filter{Queue: j.Queue, Status: queue.StatusPending}, func(r queue.Record) bool {
			if !r.Ordered && r.ID != j.ID && !r.ScheduledAt.After(f.at) && isBefore(r, *j) {
				n++
			}
			return n <= manyAhead
		})
		if err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, nil
	}
	many := fmt.Sprint(n)
	if n > manyAhead {
		many = fmt.Sprintf("more than %d", manyAhead)
	}
	return []Reason{{ID: "jobs-ahead", Level: levelOf(n, 100, 1<<30), Verdict: fmt.Sprintf("%s due jobs of the queue %s come before job %d.", many, j.Queue, j.ID),
		Evidence: []string{fmt.Sprintf("it has been due for %v, with the priority %d", short(f.at.Sub(j.ScheduledAt)), j.Priority)},
		Remedy:   "wait; or add workers, or give urgent jobs a lower Priority or a queue of their own"}}, nil
}

// isBefore reports whether a claim takes a before b.
func isBefore(a, b queue.Record) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	if !a.ScheduledAt.Equal(b.ScheduledAt) {
		return a.ScheduledAt.Before(b.ScheduledAt)
	}
	return a.ID < b.ID
}
