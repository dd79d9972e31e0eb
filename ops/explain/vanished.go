package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue/driver"
)

// reportsNeed is what keeps a worker silent that was not killed.
var reportsNeed = fmt.Sprintf("each worker reports itself every %v, for which its pool needs a connection that no handler holds", driver.ReportInterval)

// whySilent returns the reason if workers that would claim the job have not reported themselves in
// time.
func whySilent(q *inquiry) []Reason {
	silent := slices.DeleteFunc(slices.Clone(q.claimers), func(w driver.WorkerRecord) bool { return !q.isSilent(w) })
	if len(silent) == 0 {
		return nil
	}
	r := Reason{ID: "workers-silent", Level: ops.Warn, Remedy: "look at their processes and logs, and start them again if they have ended. If they have not: " + q.Command("doctor"),
		Verdict:  fmt.Sprintf("%s that would run job %d have not reported themselves for %v: they were killed, hang, or are cut off.", words.Count(len(silent), "worker"), q.job.ID, words.Short(silent[0].Silent)),
		Evidence: []string{reportsNeed}}
	if len(silent) == 1 {
		who := "A worker"
		if len(q.claimers) == 1 {
			who = "The only worker"
		}
		r.Verdict = fmt.Sprintf("%s that would run job %d has not reported itself for %v: it was killed, hangs, or is cut off.", who, q.job.ID, words.Short(silent[0].Silent))
		r.Remedy = "look at its process and log, and start it again if it has ended. If it has not: " + q.Command("doctor")
	}
	for _, w := range silent[:min(len(silent), 3)] {
		r.Evidence = append(r.Evidence, lastSeen(w))
	}
	return []Reason{r}
}

// withoutVanished says that the reason is there because of workers that have vanished, if there are
// any.
func withoutVanished(r Reason, gone []driver.WorkerRecord) Reason {
	if len(gone) == 0 {
		return r
	}
	w := gone[0]
	r.Verdict = strings.TrimSuffix(r.Verdict, ".") + fmt.Sprintf(" any more: %s did, and vanished %v ago.", w.Name, words.Short(w.Silent))
	r.Evidence = append([]string{lastSeen(w) + ", and has not stopped in order"}, r.Evidence...)
	if more := len(gone) - 1; more > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("vanished in the last hour: %d more that did", more))
	}
	r.Remedy = "start it again. Its log, or that of its host, says what ended it"
	return r
}

// lastSeen says which process a worker is, and when it last reported itself.
func lastSeen(w driver.WorkerRecord) string {
	return fmt.Sprintf("worker %s (process %d on host %s) last reported itself %v ago", w.Name, w.PID, w.Host, words.Short(w.Silent))
}
