package explain

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
)

// crashed begins the LastError of a job whose lease has expired. See driver.Reclaimer.
const crashed = "errand: the lease of worker "

// whyEnded returns why a job that neither waits nor runs will not run.
func whyEnded(ctx context.Context, q *inquiry) ([]Reason, error) {
	j := q.job
	attempts := fmt.Sprintf("it has used %d of %s", j.Attempt, words.Count(j.MaxAttempts, "attempt"))
	retry, holder, err := adviseRetry(ctx, q)
	if err != nil {
		return nil, err
	}
	ago := func(t time.Time) string {
		return fmt.Sprintf("%v ago, at %s", words.Short(q.at.Sub(t)), t.Format(time.RFC3339))
	}
	switch j.Status {
	case queue.StatusCompleted:
		return []Reason{{ID: "completed", Level: ops.OK, Verdict: fmt.Sprintf("Job %d was completed %s.", j.ID, ago(j.FinishedAt)), Evidence: []string{attempts}}}, nil
	case queue.StatusCancelled:
		r := Reason{ID: "cancelled", Level: ops.OK, Verdict: fmt.Sprintf("Job %d was cancelled %s.", j.ID, ago(j.CancelAt)), Evidence: append(holder, attempts),
			Remedy: "to run it all the same: " + retry}
		by, err := nameCanceller(ctx, q)
		r.Evidence = append(r.Evidence, by...)
		return []Reason{r}, err
	case queue.StatusHeld:
		return []Reason{{ID: "held", Level: ops.Fail, Verdict: fmt.Sprintf("Job %d is held: it has failed for good, and the rule of its queue lets no other job of its group pass.", j.ID),
			Evidence: []string{attempts, fmt.Sprintf("the group %q of the queue %s waits for it", j.Group, j.Queue)},
			Remedy:   "mend the cause, then " + retry + ". Or " + q.Command("jobs", "cancel", j.ID) + ", which lets its group pass"}}, nil
	case queue.StatusDead:
		r := whyDead(q, attempts, retry)
		r.Evidence = append(r.Evidence, holder...)
		return []Reason{r}, nil
	}
	r := Reason{ID: "foreign-status", Level: ops.Fail, Verdict: fmt.Sprintf("Job %d has the status %s, which errand does not set.", j.ID, j.Status),
		Evidence: []string{"SQL that is not errand's has written it"}, Remedy: "set its status to pending or dead, by SQL"}
	if q.Server != nil {
		r.Remedy += fmt.Sprintf(": UPDATE %s SET status = 'pending', updated_at = now() WHERE id = %d", q.Server.Table("jobs"), j.ID)
	}
	return []Reason{r}, nil
}

// adviseRetry returns how to run the job again. A live job that has its key keeps it from that:
// evidence says so.
func adviseRetry(ctx context.Context, q *inquiry) (remedy string, evidence []string, err error) {
	j := q.job
	remedy = q.Command("jobs", "redrive", j.ID)
	if j.Key == "" || j.Status != queue.StatusDead && j.Status != queue.StatusCancelled {
		return remedy, nil, nil
	}
	holders, err := listLiveKeys(ctx, q, j.Queue, j.Key)
	if err != nil || len(holders) == 0 {
		return remedy, nil, err
	}
	holder := holders[0]
	return fmt.Sprintf("wait until job %d has ended, or: %s. Only then %s", holder, q.Command("jobs", "cancel", holder), remedy),
		[]string{fmt.Sprintf("job %d is live and has its key %q, so a retry is refused", holder, j.Key)}, nil
}

// whyDead returns why a job is dead.
func whyDead(q *inquiry, attempts, retry string) Reason {
	j := q.job
	r := Reason{ID: "dead", Level: ops.Fail, Verdict: fmt.Sprintf("Job %d is dead: it has failed in each of its attempts.", j.ID),
		Evidence: []string{attempts + "; how they ended: " + q.Command("jobs", "show", j.ID), "it died at " + j.FinishedAt.Format(time.RFC3339)}, Remedy: "mend the cause, then " + retry}
	crashes := 0
	for _, failure := range j.History {
		if strings.HasPrefix(failure.Error, crashed) {
			crashes++
		}
	}
	switch {
	case strings.HasPrefix(j.LastError, crashed):
		r.ID, r.Verdict = "dead-crashed", fmt.Sprintf("Job %d is dead: its worker crashed, froze or was cut off in its last attempt.", j.ID)
		r.Evidence = append(r.Evidence, fmt.Sprintf("%s in its history, %d by an expired lease", words.Count(len(j.History), "failure"), crashes))
		if crashes > 1 {
			r.Remedy = "it may be the job that kills its process: look at the memory and the logs of " + crashedWorker(j.LastError) + ", then " + retry
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
