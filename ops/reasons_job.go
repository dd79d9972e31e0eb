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
