package explain

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// whyPending returns what keeps a pending job from running, the most certain reason first.
func whyPending(ctx context.Context, q *inquiry) (reasons []Reason, err error) {
	isDue := !q.job.ScheduledAt.After(q.at)
	if !isDue {
		later, err := whyNotDue(ctx, q)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, later)
	}
	looks := []func(context.Context, *inquiry) ([]Reason, error){
		whyCannotWrite, whyPaused, whyTableLocked, whyRowLocked, whyWriteLocked, whyDiskFull, whyLacksRights, whyNotServed, whyCutShort, whyOrdered, whyLimited, whyRated,
	}
	if isDue {
		looks = append(looks, whyInLine)
	}
	for _, look := range looks {
		more, err := look(ctx, q)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, more...)
	}
	if isThrottled := func(r Reason) bool { return r.ID == "throttled" }; !isDue && slices.ContainsFunc(reasons, isThrottled) {
		reasons[0].Remedy = strings.ReplaceAll(reasons[0].Remedy, adviseRunNow(q), "wait: it cannot start before the throttle has ended")
	}
	if len(reasons) == 0 {
		rest, err := whyNoReason(ctx, q)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, rest)
	}
	trigger, err := whyTriggerBeside(ctx, q, reasons)
	if err != nil {
		return nil, err
	}
	if trigger.ID != "" {
		reasons = append(reasons, trigger)
	}
	slices.SortStableFunc(reasons, func(a, b Reason) int { return rankOf(a) - rankOf(b) })
	return reasons, nil
}

// never is the year from which on a due time means that the job never runs. Backends show infinity
// as such a time.
const never = 9999

// whyNotDue returns why a job is not due yet.
func whyNotDue(ctx context.Context, q *inquiry) (Reason, error) {
	j := q.job
	evidence := []string{fmt.Sprintf("it is due in %v, at %s by the database's clock", words.Short(j.ScheduledAt.Sub(q.at)), j.ScheduledAt.Format(time.RFC3339))}
	if q.Server != nil {
		evidence = append(evidence, q.Server.Identity.Skew()...)
	}
	if q.knowsWorkers && len(reader.Living(q.workers)) == 0 {
		evidence = append(evidence, "no worker is alive now: start one before that")
	}
	switch {
	case j.ScheduledAt.Year() >= never:
		return Reason{ID: "never-due", Level: ops.Warn, Verdict: fmt.Sprintf("Job %d is scheduled for never.", j.ID),
			Evidence: []string{"SQL has set its scheduled_at to " + j.ScheduledAt.Format(time.RFC3339) + " or later"},
			Remedy:   "run it now: " + q.Command("jobs", "reschedule", j.ID, "--now")}, nil
	case j.Attempt > 0:
		return Reason{ID: "back-off", Level: backOffLevel(*j), Remedy: "mend what makes it fail; " + adviseRunNow(q),
			Verdict:  fmt.Sprintf("Job %d has failed and waits for its next attempt.", j.ID),
			Evidence: append(evidence, fmt.Sprintf("it has used %d of %s; how they ended: %s", j.Attempt, words.Count(j.MaxAttempts, "attempt"), q.Command("jobs", "show", j.ID)))}, nil
	case isChanged(j):
		by, ok, err := nameRescheduler(ctx, q)
		if !ok {
			by = fmt.Sprintf("it was changed at %s: its handler has snoozed it, a worker has released it (a limit, a circuit breaker), or a program has rescheduled, replaced or moved it",
				j.UpdatedAt.Format(time.RFC3339))
		}
		return Reason{ID: "put-off", Level: ops.OK, Verdict: fmt.Sprintf("Job %d was put off.", j.ID), Remedy: adviseRunNow(q), Evidence: append(evidence, by)}, err
	}
	return Reason{ID: "delayed", Level: ops.OK, Verdict: fmt.Sprintf("Job %d is scheduled for later.", j.ID), Evidence: evidence, Remedy: adviseRunNow(q)}, nil
}

// adviseRunNow is what to do about a job that is due later.
func adviseRunNow(q *inquiry) string {
	return "wait, or run it now: " + q.Command("jobs", "reschedule", q.job.ID, "--now")
}

// isChanged reports whether something has changed the job since its enqueue, which writes one time
// as both: however soon a change comes, it writes another UpdatedAt.
func isChanged(j *queue.Record) bool { return !j.UpdatedAt.Equal(j.CreatedAt) }

// nameRescheduler returns who has last changed the job, if the audit log says so. Entries are
// written right after their change, so an older one is of a person before what has changed the job
// last.
func nameRescheduler(ctx context.Context, q *inquiry) (text string, ok bool, err error) {
	const near = 10 * time.Second
	entry, ok, err := findAudit(ctx, q, queue.AuditFilter{JobID: q.job.ID}, func(e queue.AuditEntry) bool {
		return strings.HasPrefix(e.Action, "jobs.") && !e.At.Before(q.job.UpdatedAt) && e.At.Sub(q.job.UpdatedAt) <= near
	})
	return "the audit log says who has changed it: " + entryText(entry), ok, err
}

// whyNoReason returns the reason for a due job that nothing known keeps from running.
func whyNoReason(ctx context.Context, q *inquiry) (Reason, error) {
	j := q.job
	waits := q.at.Sub(j.ScheduledAt)
	due := fmt.Sprintf("it became due at %s, by the database's clock", j.ScheduledAt.Format(time.RFC3339))
	polls := reader.Overdue // from then on it shows if the workers have ended
	for _, w := range q.free {
		polls = max(polls, w.Poll+reader.Soon/2)
	}
	wasGivenBack := isChanged(j) && j.UpdatedAt.After(j.ScheduledAt)
	if wasGivenBack && q.at.Sub(j.UpdatedAt) < polls {
		by, ok, err := nameRescheduler(ctx, q)
		if !ok {
			by = "a worker has claimed it and given it back, or has reclaimed it after a crash; or a program has changed it"
		}
		return Reason{ID: "given-back", Level: ops.Warn, Verdict: fmt.Sprintf("Job %d has changed %v ago, although it has been due for %v.", j.ID, words.Short(q.at.Sub(j.UpdatedAt)), words.Short(waits)),
			Evidence: []string{due, by},
			Remedy:   "ask again in ten seconds. If it says the same, look at the workers' logs: middleware or a shutdown releases it"}, err
	}
	if waits < polls {
		return Reason{ID: "just-due", Level: ops.OK, Verdict: fmt.Sprintf("Job %d has been due for %v: it waits for the next claim of a worker.", j.ID, words.Short(waits)), Evidence: []string{due},
			Remedy: fmt.Sprintf("ask again in %s", plain.Duration(polls))}, nil
	}
	if hidden, err := whyHiddenFromWorkers(ctx, q, due); err != nil || hidden.ID != "" {
		return hidden, err
	}
	if trigger, err := whyForeignTrigger(ctx, q, due); err != nil || trigger.ID != "" {
		return trigger, err
	}
	return whyUnexplained(q, waits, due), nil
}

// whyHiddenFromWorkers returns the reason if row security may hide the job from workers, and
// otherwise none.
func whyHiddenFromWorkers(ctx context.Context, q *inquiry, due string) (Reason, error) {
	if q.Server == nil {
		return Reason{}, nil
	}
	var roles []string
	err := q.Server.Rows(ctx, "row_security_roles", func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		roles = append(roles, name)
		return err
	})
	if ok, err := q.tryOrNote(ctx, "whether row security hides the job from workers", err); !ok || len(roles) == 0 {
		return Reason{}, err
	}
	return Reason{ID: "row-security", Level: ops.Fail, Verdict: fmt.Sprintf("Row security may hide job %d from workers: it is due, and nothing else keeps it from running.", q.job.ID),
		Evidence: []string{due, "the table of jobs has row security, which holds for workers of these roles: " + words.Enumerate(roles)}, Remedy: q.Server.DisableRowSecurity()}, nil
}

// whyTriggerBeside returns the reason for a foreign trigger if a worker is free, and jobs that come
// before the job are not claimed either. It finds no other: noReason has looked for it.
func whyTriggerBeside(ctx context.Context, q *inquiry, reasons []Reason) (Reason, error) {
	if len(reasons) != 1 || reasons[0].ID != "jobs-ahead" || len(q.free) == 0 || q.at.Sub(q.job.ScheduledAt) < reader.Overdue {
		return Reason{}, nil
	}
	return whyForeignTrigger(ctx, q, "jobs that come before it are not claimed either, although a worker is free")
}

// whyForeignTrigger returns the reason if the table of jobs has triggers that are not errand's, and
// otherwise none. Such a trigger keeps a job from being claimed if it raises an error for it.
func whyForeignTrigger(ctx context.Context, q *inquiry, due string) (Reason, error) {
	if q.Server == nil {
		return Reason{}, nil
	}
	t, err := q.Server.Stats(ctx)
	if ok, err := q.tryOrNote(ctx, "which triggers the table of jobs has", err); !ok || t.Triggers == "" {
		return Reason{}, err
	}
	return Reason{ID: "foreign-trigger", Level: ops.Fail,
		Verdict:  fmt.Sprintf("A trigger that is not errand's may keep job %d from running, which is due: %s.", q.job.ID, t.Triggers),
		Evidence: []string{due, "a claim updates the job's row, and passes the job over if a trigger raises an error for it or returns NULL"},
		Remedy:   "the workers' logs have the trigger's error, with the IDs of the jobs. Mend the trigger, or DROP TRIGGER"}, nil
}

// whyUnexplained returns the reason for a job that should have been claimed.
func whyUnexplained(q *inquiry, waits time.Duration, due string) Reason {
	j := q.job
	r := Reason{ID: "unexplained", Level: ops.Fail, Verdict: fmt.Sprintf("Job %d has been due for %v, and no reason was found.", j.ID, words.Short(waits)),
		Evidence: append([]string{due, "it is not paused, no limit holds it, no job comes before it, and no open transaction is seen that has locked it"}, describe(q.free)...),
		Remedy:   "ask again in ten seconds. If it says the same, look at the workers' logs, and report a bug of errand with this answer"}
	switch {
	case len(q.unknown) > 0:
		r.Level, r.Evidence = ops.Warn, append([]string{due}, describe(q.free)...)
		r.Verdict = fmt.Sprintf("Job %d has been due for %v, and what is known does not say why.", j.ID, words.Short(waits))
		r.Remedy = "see what is not known, and ask again as a role that may see it"
	case !q.knowsWorkers:
		r.Remedy = "look whether a worker runs that serves the queue " + j.Queue + " and handles the kind " + j.Kind + ", and whether its log has errors of claims"
	}
	return r
}

// whyInLine returns why the workers have not claimed the job so far, and what comes before it. Many
// jobs before it are the reason, rather than that workers are busy with short jobs.
func whyInLine(ctx context.Context, q *inquiry) ([]Reason, error) {
	busy, err := whyNotClaiming(ctx, q)
	if err != nil {
		return nil, err
	}
	ahead, err := whyAhead(ctx, q)
	if len(busy) > 0 && busy[0].ID == "workers-busy" && q.longest < reader.Soon && len(ahead) > 0 && ahead[0].Level != ops.OK {
		return append(ahead, busy...), err
	}
	return append(busy, ahead...), err
}
