package ops

import (
	"context"
	"fmt"
	"time"
)

// pending returns what keeps a pending job from running, the most certain reason first.
func (f *facts) pending(ctx context.Context) (reasons []Reason, err error) {
	isDue := !f.job.ScheduledAt.After(f.at)
	if !isDue {
		reasons = append(reasons, f.notDue())
	}
	looks := []func(context.Context) ([]Reason, error){
		f.paused, f.tableLocked, f.rowLocked, f.writeLocked, f.ordered, f.limited, f.rated,
	}
	if isDue {
		looks = append(looks, f.served, f.ahead)
	}
	for _, look := range looks {
		more, err := look(ctx)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, more...)
	}
	if len(reasons) == 0 {
		reasons = append(reasons, f.unexplained())
	}
	return reasons, nil
}

// never is the year from which on a due time means that the job never runs. Backends show infinity
// as such a time.
const never = 9999

// notDue returns why a job is not due yet.
func (f *facts) notDue() Reason {
	j := f.job
	in := j.ScheduledAt.Sub(f.at)
	due := fmt.Sprintf("it is due in %v, at %s by the database's clock", short(in), j.ScheduledAt.Format(time.RFC3339))
	runNow := "wait, or run it now: " + command("jobs", "reschedule", j.ID, "--now")
	switch {
	case j.ScheduledAt.Year() >= never:
		return Reason{ID: "never-due", Level: Warn, Verdict: fmt.Sprintf("Job %d is scheduled for never.", j.ID),
			Evidence: []string{"SQL has set its scheduled_at to " + j.ScheduledAt.Format(time.RFC3339) + " or later"}, Remedy: runNow}
	case j.Attempt > 0:
		return Reason{ID: "back-off", Level: levelOf(j.Attempt, 2, max(j.MaxAttempts, 3)), Remedy: "mend what makes it fail; " + runNow,
			Verdict:  fmt.Sprintf("Job %d has failed and waits for its next attempt.", j.ID),
			Evidence: []string{due, fmt.Sprintf("it has used %d of %d attempts; last_error and history say how they ended", j.Attempt, j.MaxAttempts)}}
	case j.UpdatedAt.Sub(j.CreatedAt) > time.Second:
		return Reason{ID: "put-off", Level: OK, Verdict: fmt.Sprintf("Job %d was put off.", j.ID), Remedy: runNow, Evidence: []string{due,
			"it was changed at " + j.UpdatedAt.Format(time.RFC3339) + ": its handler has snoozed it, a worker has released it, or a person has rescheduled it"}}
	}
	return Reason{ID: "delayed", Level: OK, Verdict: fmt.Sprintf("Job %d is scheduled for later.", j.ID), Evidence: []string{due}, Remedy: runNow}
}

// soon is within which time a worker that was not woken claims a due job: its Poll, and a claim.
const soon = 10 * time.Second

// unexplained returns the reason for a due job that nothing known keeps from running.
func (f *facts) unexplained() Reason {
	j := f.job
	waits := f.at.Sub(j.ScheduledAt)
	due := fmt.Sprintf("it became due at %s, by the database's clock", j.ScheduledAt.Format(time.RFC3339))
	if waits < soon {
		return Reason{ID: "just-due", Level: OK, Verdict: fmt.Sprintf("Job %d has been due for %v: the next claim takes it.", j.ID, short(waits)), Evidence: []string{due},
			Remedy: "ask again in ten seconds"}
	}
	r := Reason{ID: "unexplained", Level: Fail, Verdict: fmt.Sprintf("Job %d has been due for %v, and nothing that is known keeps it from running.", j.ID, short(waits)),
		Evidence: append([]string{due, "it is neither paused, locked, limited nor behind other jobs"}, f.idle...),
		Remedy:   "ask again in ten seconds. If it says the same, look at the workers' logs, and report a bug of errand with this answer"}
	if !f.knowsWorkers {
		r.Remedy = "look whether a worker runs that serves the queue " + j.Queue + " and handles the kind " + j.Kind + ", and whether its log has errors of claims"
	}
	return r
}
