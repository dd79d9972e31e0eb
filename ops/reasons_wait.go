package ops

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/internal/plain"
	"github.com/errandhq/errand/queue"
)

// pending returns what keeps a pending job from running, the most certain reason first.
func (f *facts) pending(ctx context.Context) (reasons []Reason, err error) {
	isDue := !f.job.ScheduledAt.After(f.at)
	if !isDue {
		later, err := f.notDue(ctx)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, later)
	}
	looks := []func(context.Context) ([]Reason, error){
		f.cannotWrite, f.paused, f.tableLocked, f.rowLocked, f.writeLocked, f.diskIsFull, f.lacksRights, f.served, f.cutShort, f.ordered, f.limited, f.rated,
	}
	if isDue {
		looks = append(looks, f.inLine)
	}
	for _, look := range looks {
		more, err := look(ctx)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, more...)
	}
	if isThrottled := func(r Reason) bool { return r.ID == "throttled" }; !isDue && slices.ContainsFunc(reasons, isThrottled) {
		reasons[0].Remedy = strings.ReplaceAll(reasons[0].Remedy, f.runNow(), "wait: it cannot start before the throttle has ended")
	}
	if len(reasons) == 0 {
		rest, err := f.noReason(ctx)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, rest)
	}
	trigger, err := f.triggerBeside(ctx, reasons)
	if err != nil {
		return nil, err
	}
	if trigger.ID != "" {
		reasons = append(reasons, trigger)
	}
	slices.SortStableFunc(reasons, func(a, b Reason) int { return a.rank() - b.rank() })
	return reasons, nil
}

// passing are the reasons that end by themselves.
var passing = []string{
	"delayed", "put-off", "back-off", "just-due", "given-back", "behind-running", "behind-pending", "behind-back-off",
	"queue-limit", "group-limit", "queue-rate", "group-rate", "throttled", "workers-draining", "workers-busy", "claims-hang", "starved",
	"jobs-ahead",
}

// rank is 0 for a reason that a person has to end. Those that end by themselves come behind.
func (r Reason) rank() int {
	if slices.Contains(passing, r.ID) {
		return 1
	}
	return 0
}

// never is the year from which on a due time means that the job never runs. Backends show infinity
// as such a time.
const never = 9999

// notDue returns why a job is not due yet.
func (f *facts) notDue(ctx context.Context) (Reason, error) {
	j := f.job
	evidence := []string{fmt.Sprintf("it is due in %v, at %s by the database's clock", short(j.ScheduledAt.Sub(f.at)), j.ScheduledAt.Format(time.RFC3339))}
	if f.server != nil {
		evidence = append(evidence, f.server.identity.skew()...)
	}
	if f.knowsWorkers && len(living(f.workers)) == 0 {
		evidence = append(evidence, "no worker is alive now: start one before that")
	}
	switch {
	case j.ScheduledAt.Year() >= never:
		return Reason{ID: "never-due", Level: Warn, Verdict: fmt.Sprintf("Job %d is scheduled for never.", j.ID),
			Evidence: []string{"SQL has set its scheduled_at to " + j.ScheduledAt.Format(time.RFC3339) + " or later"},
			Remedy:   "run it now: " + f.command("jobs", "reschedule", j.ID, "--now")}, nil
	case j.Attempt > 0:
		return Reason{ID: "back-off", Level: backOffLevel(*j), Remedy: "mend what makes it fail; " + f.runNow(),
			Verdict:  fmt.Sprintf("Job %d has failed and waits for its next attempt.", j.ID),
			Evidence: append(evidence, fmt.Sprintf("it has used %d of %s; how they ended: %s", j.Attempt, count(j.MaxAttempts, "attempt"), f.command("jobs", "show", j.ID)))}, nil
	case isChanged(j):
		by, ok, err := f.rescheduler(ctx)
		if !ok {
			by = fmt.Sprintf("it was changed at %s: its handler has snoozed it, a worker has released it (a limit, a circuit breaker), or a program has rescheduled, replaced or moved it",
				j.UpdatedAt.Format(time.RFC3339))
		}
		return Reason{ID: "put-off", Level: OK, Verdict: fmt.Sprintf("Job %d was put off.", j.ID), Remedy: f.runNow(), Evidence: append(evidence, by)}, err
	}
	return Reason{ID: "delayed", Level: OK, Verdict: fmt.Sprintf("Job %d is scheduled for later.", j.ID), Evidence: evidence, Remedy: f.runNow()}, nil
}

// runNow is what to do about a job that is due later.
func (f *facts) runNow() string {
	return "wait, or run it now: " + f.command("jobs", "reschedule", f.job.ID, "--now")
}

// isChanged reports whether something has changed the job since its enqueue, which writes one time
// as both: however soon a change comes, it writes another UpdatedAt.
func isChanged(j *queue.Record) bool { return !j.UpdatedAt.Equal(j.CreatedAt) }

// backOffLevel is the level of a job that has failed and will run again.
func backOffLevel(j queue.Record) Level { return levelOf(j.Attempt, 2, max(j.MaxAttempts, 3)) }

// rescheduler returns who has last changed the job, if the audit log says so. Entries are written
// right after their change, so an older one is of a person before what has changed the job last.
func (f *facts) rescheduler(ctx context.Context) (text string, ok bool, err error) {
	const near = 10 * time.Second
	entry, ok, err := f.findAudit(ctx, queue.AuditFilter{JobID: f.job.ID}, func(e queue.AuditEntry) bool {
		return strings.HasPrefix(e.Action, "jobs.") && !e.At.Before(f.job.UpdatedAt) && e.At.Sub(f.job.UpdatedAt) <= near
	})
	return "the audit log says who has changed it: " + entryText(entry), ok, err
}

// ahead returns how far the server's clock is ahead of the local one, which may be wrong by half of
// the time that the answer took.
func (i identity) ahead() time.Duration { return i.clock.Sub(i.asked.Add(i.replied.Sub(i.asked) / 2)) }

// skew says that the server's clock differs from that of this host, if it does so by more than a
// second and more than the answer took.
func (i identity) skew() []string {
	trip := i.replied.Sub(i.asked)
	off := i.ahead()
	switch beyond := off.Abs() - trip/2; {
	case beyond < time.Second:
		return nil
	case off < 0:
		return []string{fmt.Sprintf("the database's clock is %v behind that of this host", short(-off))}
	}
	return []string{fmt.Sprintf("the database's clock is %v ahead of that of this host", short(off))}
}

// soon is within which time a worker that was not woken claims a due job: its Poll, and a claim.
const soon = 10 * time.Second

// noReason returns the reason for a due job that nothing known keeps from running.
func (f *facts) noReason(ctx context.Context) (Reason, error) {
	j := f.job
	waits := f.at.Sub(j.ScheduledAt)
	due := fmt.Sprintf("it became due at %s, by the database's clock", j.ScheduledAt.Format(time.RFC3339))
	polls := overdue // from then on it shows if the workers have ended
	for _, w := range f.free {
		polls = max(polls, w.Poll+soon/2)
	}
	wasGivenBack := isChanged(j) && j.UpdatedAt.After(j.ScheduledAt)
	if wasGivenBack && f.at.Sub(j.UpdatedAt) < polls {
		by, ok, err := f.rescheduler(ctx)
		if !ok {
			by = "a worker has claimed it and given it back, or has reclaimed it after a crash; or a program has changed it"
		}
		return Reason{ID: "given-back", Level: Warn, Verdict: fmt.Sprintf("Job %d has changed %v ago, although it has been due for %v.", j.ID, short(f.at.Sub(j.UpdatedAt)), short(waits)),
			Evidence: []string{due, by},
			Remedy:   "ask again in ten seconds. If it says the same, look at the workers' logs: middleware or a shutdown releases it"}, err
	}
	if waits < polls {
		return Reason{ID: "just-due", Level: OK, Verdict: fmt.Sprintf("Job %d has been due for %v: it waits for the next claim of a worker.", j.ID, short(waits)), Evidence: []string{due},
			Remedy: fmt.Sprintf("ask again in %s", plain.Duration(polls))}, nil
	}
	if hidden, err := f.hiddenFromWorkers(ctx, due); err != nil || hidden.ID != "" {
		return hidden, err
	}
	if trigger, err := f.foreignTrigger(ctx, due); err != nil || trigger.ID != "" {
		return trigger, err
	}
	return f.unexplained(waits, due), nil
}

// hiddenFromWorkers returns the reason if row security may hide the job from workers, and otherwise
// none.
func (f *facts) hiddenFromWorkers(ctx context.Context, due string) (Reason, error) {
	if f.server == nil {
		return Reason{}, nil
	}
	var roles []string
	err := f.server.rows(ctx, "row_security_roles", func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		roles = append(roles, name)
		return err
	})
	if ok, err := f.tryOrNote(ctx, "whether row security hides the job from workers", err); !ok || len(roles) == 0 {
		return Reason{}, err
	}
	return Reason{ID: "row-security", Level: Fail, Verdict: fmt.Sprintf("Row security may hide job %d from workers: it is due, and nothing else keeps it from running.", f.job.ID),
		Evidence: []string{due, "the table of jobs has row security, which holds for workers of these roles: " + enumerate(roles)}, Remedy: f.server.disableRowSecurity()}, nil
}

// triggerBeside returns the reason for a foreign trigger if a worker is free, and jobs that come
// before the job are not claimed either. It finds no other: noReason has looked for it.
func (f *facts) triggerBeside(ctx context.Context, reasons []Reason) (Reason, error) {
	if len(reasons) != 1 || reasons[0].ID != "jobs-ahead" || len(f.free) == 0 || f.at.Sub(f.job.ScheduledAt) < overdue {
		return Reason{}, nil
	}
	return f.foreignTrigger(ctx, "jobs that come before it are not claimed either, although a worker is free")
}

// foreignTrigger returns the reason if the table of jobs has triggers that are not errand's, and
// otherwise none. Such a trigger keeps a job from being claimed if it raises an error for it.
func (f *facts) foreignTrigger(ctx context.Context, due string) (Reason, error) {
	if f.server == nil {
		return Reason{}, nil
	}
	t, err := f.server.stats(ctx)
	if ok, err := f.tryOrNote(ctx, "which triggers the table of jobs has", err); !ok || t.triggers == "" {
		return Reason{}, err
	}
	return Reason{ID: "foreign-trigger", Level: Fail,
		Verdict:  fmt.Sprintf("A trigger that is not errand's may keep job %d from running, which is due: %s.", f.job.ID, t.triggers),
		Evidence: []string{due, "a claim updates the job's row, and passes the job over if a trigger raises an error for it or returns NULL"},
		Remedy:   "the workers' logs have the trigger's error, with the IDs of the jobs. Mend the trigger, or DROP TRIGGER"}, nil
}

// unexplained returns the reason for a job that should have been claimed.
func (f *facts) unexplained(waits time.Duration, due string) Reason {
	j := f.job
	r := Reason{ID: "unexplained", Level: Fail, Verdict: fmt.Sprintf("Job %d has been due for %v, and no reason was found.", j.ID, short(waits)),
		Evidence: append([]string{due, "it is not paused, no limit holds it, no job comes before it, and no open transaction is seen that has locked it"}, describe(f.free)...),
		Remedy:   "ask again in ten seconds. If it says the same, look at the workers' logs, and report a bug of errand with this answer"}
	switch {
	case len(f.unknown) > 0:
		r.Level, r.Evidence = Warn, append([]string{due}, describe(f.free)...)
		r.Verdict = fmt.Sprintf("Job %d has been due for %v, and what is known does not say why.", j.ID, short(waits))
		r.Remedy = "see what is not known, and ask again as a role that may see it"
	case !f.knowsWorkers:
		r.Remedy = "look whether a worker runs that serves the queue " + j.Queue + " and handles the kind " + j.Kind + ", and whether its log has errors of claims"
	}
	return r
}
