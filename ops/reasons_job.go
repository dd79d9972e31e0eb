package ops

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/queue"
)

// crashed begins the LastError of a job whose lease has expired. See queue.Reclaimer.
const crashed = "errand: the lease of worker "

// long is how long a job may run before its handler is suspected to hang.
const long = 10 * time.Minute

// ended returns why a job that neither waits nor runs will not run.
func (f *facts) ended(ctx context.Context) ([]Reason, error) {
	j := f.job
	attempts := fmt.Sprintf("it has used %d of %d attempts", j.Attempt, j.MaxAttempts)
	retry := command("jobs", "retry", j.ID)
	ago := func(t time.Time) string {
		return fmt.Sprintf("%v ago, at %s", short(f.at.Sub(t)), t.Format(time.RFC3339))
	}
	switch j.Status {
	case queue.StatusCompleted:
		return []Reason{{ID: "completed", Level: OK, Verdict: fmt.Sprintf("Job %d is done, %s.", j.ID, ago(j.FinishedAt)), Evidence: []string{attempts}}}, nil
	case queue.StatusCancelled:
		r := Reason{ID: "cancelled", Level: OK, Verdict: fmt.Sprintf("Job %d was cancelled, %s.", j.ID, ago(j.CancelAt)), Evidence: []string{attempts},
			Remedy: "to run it nevertheless: " + retry}
		entry, ok, err := f.audited(ctx, j.ID, "jobs.cancel")
		if ok {
			r.Evidence = append(r.Evidence, entry)
		}
		return []Reason{r}, err
	case queue.StatusHeld:
		return []Reason{{ID: "held", Level: Fail, Verdict: fmt.Sprintf("Job %d is held: it would be dead, and the rule of its queue keeps its group in order.", j.ID),
			Evidence: []string{attempts, fmt.Sprintf("group %q of queue %s waits for it", j.Group, j.Queue)},
			Remedy:   "mend the cause, then " + retry + ". Or " + command("jobs", "cancel", j.ID) + ", which lets its group pass"}}, nil
	case queue.StatusDead:
		return []Reason{f.dead(attempts, retry)}, nil
	}
	return []Reason{{ID: "foreign-status", Level: Fail, Verdict: fmt.Sprintf("Job %d has the status %s, which errand does not set.", j.ID, j.Status),
		Evidence: []string{"a statement that is not errand's has written it"}, Remedy: "set its status by SQL to pending or dead"}}, nil
}

// dead returns why a job is dead.
func (f *facts) dead(attempts, retry string) Reason {
	j := f.job
	r := Reason{ID: "dead", Level: Fail, Verdict: fmt.Sprintf("Job %d is dead: it has failed in each of its attempts.", j.ID),
		Evidence: []string{attempts, "it died at " + j.FinishedAt.Format(time.RFC3339)}, Remedy: "mend the cause, then " + retry}
	crashes := 0
	for _, failure := range j.History {
		if strings.HasPrefix(failure.Error, crashed) {
			crashes++
		}
	}
	switch {
	case strings.HasPrefix(j.LastError, crashed):
		r.ID, r.Verdict = "dead-crashed", fmt.Sprintf("Job %d is dead: its worker crashed, froze or was cut off in its last attempt.", j.ID)
		r.Evidence = append(r.Evidence, fmt.Sprintf("%d of its last %d failures are leases that expired", crashes, len(j.History)))
		if crashes > 1 {
			r.Remedy = "it may kill its process: look at the memory and the logs of " + crashedWorker(j.LastError) + ", then " + retry
		}
	case j.Attempt < j.MaxAttempts:
		r.ID, r.Verdict = "dead-discarded", fmt.Sprintf("Job %d is dead: its handler has discarded it.", j.ID)
	}
	return r
}

// crashedWorker returns the name of the worker whose lease has expired.
func crashedWorker(text string) string {
	return strings.TrimSuffix(strings.TrimPrefix(text, crashed), " expired")
}

// running returns what a running job does.
func (f *facts) running() []Reason {
	j := f.job
	ran := f.at.Sub(j.StartedAt)
	evidence := []string{
		fmt.Sprintf("worker %s has it since %s, attempt %d of %d", j.Worker, j.StartedAt.Format(time.RFC3339), j.Attempt, j.MaxAttempts),
	}
	if !j.LeaseEnds.After(j.LockedAt) {
		return []Reason{f.withoutLease(evidence)}
	}
	evidence = append(evidence, fmt.Sprintf("its lease was last extended %v ago, for %v", short(f.at.Sub(j.LockedAt)), short(j.LeaseEnds.Sub(j.LockedAt))))
	holder, isKnown := f.worker(j.Worker)
	switch expired := f.at.Sub(j.LeaseEnds); {
	case expired >= 0:
		r := Reason{ID: "lease-expired", Evidence: evidence, Level: levelOf(expired, 0, max(j.LeaseEnds.Sub(j.LockedAt), time.Second)),
			Verdict: fmt.Sprintf("The lease of job %d expired %v ago: its worker has crashed, hangs or is cut off.", j.ID, short(expired)),
			Remedy:  "any worker reclaims it within another lease, and later if it has crashed before: start one if none runs"}
		if f.knowsWorkers && len(living(f.workers)) == 0 {
			r.Level, r.Remedy = Fail, "no worker is alive to reclaim it: start one"
		}
		return []Reason{r}
	case isKnown && holder.Vanished:
		return []Reason{{ID: "holder-vanished", Level: Warn, Evidence: append(evidence, describe([]queue.WorkerRecord{holder})...),
			Verdict: fmt.Sprintf("Job %d is held by a worker that has vanished.", j.ID),
			Remedy:  fmt.Sprintf("its lease ends in %v; then any live worker reclaims it", short(-expired))}}
	case !j.CancelAt.IsZero():
		return []Reason{{ID: "cancel-asked", Level: levelOf(f.at.Sub(j.CancelAt), time.Minute, time.Hour), Evidence: evidence,
			Verdict: fmt.Sprintf("Job %d was cancelled %v ago, and its handler has not returned yet.", j.ID, short(f.at.Sub(j.CancelAt))),
			Remedy:  "its handler has to end when its context does; the worker's log names handlers that ignore it"}}
	case ran > long:
		return []Reason{{ID: "runs-long", Level: Warn, Evidence: evidence, Verdict: fmt.Sprintf("Job %d has been running for %v.", j.ID, short(ran)),
			Remedy: fmt.Sprintf("look at its handler; give the kind %s a Timeout; %s asks the handler to end", j.Kind, command("jobs", "cancel", j.ID))}}
	}
	return []Reason{{ID: "running", Level: OK, Evidence: evidence, Verdict: fmt.Sprintf("Job %d runs, for %v.", j.ID, short(ran))}}
}

// stale is how long after its claim a job without a lease is reclaimed.
const stale = 10 * time.Minute

// withoutLease returns what a job does that a worker made of SQL statements has claimed.
func (f *facts) withoutLease(evidence []string) Reason {
	j := f.job
	held := f.at.Sub(j.LockedAt)
	return Reason{ID: "no-lease", Level: levelOf(held, stale, 2*stale), Evidence: evidence,
		Verdict: fmt.Sprintf("Job %d was claimed %v ago by a statement that is not errand's, without a lease.", j.ID, short(held)),
		Remedy:  fmt.Sprintf("look at %s; errand's workers reclaim it %v after its claim", j.Worker, stale)}
}
