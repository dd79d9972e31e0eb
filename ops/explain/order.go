package explain

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// whyOrdered returns which job of the same line comes first.
func whyOrdered(ctx context.Context, q *inquiry) ([]Reason, error) {
	j := q.job
	if !j.Ordered {
		return nil, nil
	}
	first, ok, err := findFirstOfLine(ctx, q)
	if err != nil || !ok || first.ID == j.ID {
		return nil, err
	}
	r := Reason{Level: ops.OK, Remedy: q.Command("explain", first.ID), Evidence: []string{
		fmt.Sprintf("job %d of the kind %s is %s, and has used %d of %s", first.ID, first.Kind, first.Status, first.Attempt, words.Count(first.MaxAttempts, "attempt"))}}
	behind := fmt.Sprintf("Job %d waits for job %d of its group %q, ", j.ID, first.ID, j.Group)
	isHandled := func(w driver.WorkerRecord) bool { return reader.Handles(w, first.Kind) }
	switch serving := listServing(q); {
	case first.Status == queue.StatusHeld:
		r.ID, r.Level, r.Verdict = "behind-held", ops.Fail, behind+"which is held."
		r.Remedy = "mend what made it fail, then " + q.Command("jobs", "redrive", first.ID) + ". Or " + q.Command("jobs", "cancel", first.ID)
	case first.Status == queue.StatusRunning:
		r.ID, r.Verdict = "behind-running", behind+"which runs."
	case slices.Contains(q.pauses, first.Kind):
		r.ID, r.Level, r.Verdict = "behind-stuck", ops.Warn, behind+fmt.Sprintf("whose kind %s is paused.", first.Kind)
	case len(serving) > 0 && !slices.ContainsFunc(serving, isHandled):
		r.ID, r.Level, r.Verdict = "behind-stuck", ops.Fail, behind+fmt.Sprintf("which no live worker handles: its kind is %s.", first.Kind)
	case first.Attempt > 0 && first.ScheduledAt.After(q.at):
		r.ID, r.Level, r.Verdict = "behind-back-off", backOffLevel(first), behind+fmt.Sprintf("which has failed and runs again in %v.", words.Short(first.ScheduledAt.Sub(q.at)))
	default:
		r.ID, r.Verdict = "behind-pending", behind+"which has not run yet."
	}
	return []Reason{r}, nil
}

// findFirstOfLine returns the first live ordered job of the job's group.
func findFirstOfLine(ctx context.Context, q *inquiry) (first queue.Record, ok bool, err error) {
	if q.Server != nil {
		var id int64
		err := q.Server.Rows(ctx, "first_of_line", func(r *sql.Rows) error { return r.Scan(&id) }, q.job.Queue, q.job.Group)
		if ok, err := q.tryOrNote(ctx, "which job of its group comes first", err); !ok || id == 0 {
			return first, false, err
		}
		return q.Inspector.Job(ctx, id)
	}
	for _, status := range []queue.Status{queue.StatusRunning, queue.StatusHeld, queue.StatusPending} {
		isAll, err := q.list(ctx, queue.Filter{Queue: q.job.Queue, Group: q.job.Group, Status: status}, func(r queue.Record) bool {
			if r.Ordered && (!ok || r.ID < first.ID || r.Status == queue.StatusRunning) {
				first, ok = r, true
			}
			return status != queue.StatusRunning
		})
		if err != nil || ok && first.Status == queue.StatusRunning {
			return first, ok, err
		}
		if !isAll && status != queue.StatusRunning {
			q.unknown = append(q.unknown, "jobs of its group that are older than those that were read")
		}
	}
	return first, ok, nil
}

// manyAhead is from how many jobs before the job on Job warns.
const manyAhead = 100

// whyAhead returns how many due jobs the workers of the job would claim before it.
func whyAhead(ctx context.Context, q *inquiry) ([]Reason, error) {
	j := q.job
	if j.Ordered || q.knowsWorkers && len(q.claimers) == 0 { // lines take turns; and nobody claims any
		return nil, nil
	}
	c, ok, err := readClaimable(ctx, q, j.Queue, j, q.claimers)
	if err != nil || !ok || c.jobs == 0 {
		return nil, err
	}
	evidence := []string{fmt.Sprintf("it has been due for %v, with the priority %d", words.Short(q.at.Sub(j.ScheduledAt)), j.Priority)}
	jobs := words.Count(c.jobs, "due job")
	if !c.isAll {
		jobs = "At least " + jobs
		evidence = append(evidence, fmt.Sprintf("only %d due jobs before it were looked at: there are more", maxDue))
	}
	pace, err := describePace(ctx, q, c.jobs, c.isAll)
	if err != nil {
		return nil, err
	}
	of := "the queue " + j.Queue
	if q.rules.takesTurns(j.Queue) {
		of = fmt.Sprintf("the group %q of the queue %s", j.Group, j.Queue)
	}
	verb := "come"
	if c.jobs == 1 {
		verb = "comes"
	}
	return []Reason{{ID: "jobs-ahead", Level: words.LevelOf(c.jobs, manyAhead, 1<<30),
		Verdict:  fmt.Sprintf("%s of %s %s before job %d.", jobs, of, verb, j.ID),
		Evidence: slices.Concat(evidence, pace, c.others),
		Remedy:   "wait; or add workers, or give urgent jobs a lower Priority or a queue of their own"}}, nil
}

// backOffLevel is the level of a job that has failed and will run again.
func backOffLevel(j queue.Record) ops.Level {
	return words.LevelOf(j.Attempt, 2, max(j.MaxAttempts, 3))
}
