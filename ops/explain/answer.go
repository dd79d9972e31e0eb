package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/words"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Question says which job [Job] is asked about: the one with that ID, or with that Key, or the
// due job of the Queue or the Kind that has waited longest. Queue narrows Key and Kind. One of ID,
// Key, Queue and Kind is required.
type Question struct {
	ID    int64  `json:"id,omitempty"`
	Key   string `json:"key,omitempty"`
	Queue string `json:"queue,omitempty"`
	Kind  string `json:"kind,omitempty"`
	// Program is how the command lines of remedies begin: the program, with flags that name the
	// database. It is text for a shell. "" means errand.
	Program string `json:"-"`
}

func (q Question) check() error {
	switch {
	case q.ID < 0:
		return &queue.InvalidError{Field: "ID", Problem: fmt.Sprintf("%d: errand gives jobs IDs from 1 on, and explain looks at no others", q.ID)}
	case q == Question{}:
		return &queue.InvalidError{Field: "Question", Problem: "empty: set ID, Key, Queue or Kind"}
	case q.ID > 0 && (q != Question{ID: q.ID}):
		return &queue.InvalidError{Field: "ID", Problem: "beside Key, Queue or Kind: set it alone"}
	case q.Key != "" && q.Kind != "":
		return &queue.InvalidError{Field: "Kind", Problem: "beside Key: a key belongs to a queue, not to a kind"}
	}
	return nil
}

// Reason is one cause why a job does not run, or what it does instead.
type Reason struct {
	// ID is the name of the reason, such as "queue-paused". It will not change. docs/doctor.md lists
	// them.
	ID string `json:"id"`
	// Level is [ops.OK] for what is as it should be, such as a job that runs or waits for its time.
	Level ops.Level `json:"level"`
	// Verdict says in one sentence what is the matter.
	Verdict string `json:"verdict"`
	// Evidence are the facts that show it. They hold no payload and no error of a job: that is in
	// the Job of the answer.
	Evidence []string `json:"evidence,omitempty"`
	// Remedy is what to do about it; "" if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Answer is what [Job] has found out.
type Answer struct {
	Question Question `json:"question"`
	// At is when the facts were read, by the backend's clock if it is known.
	At time.Time `json:"at"`
	// Job is the job that the reasons are about, without its Payload and Headers. nil if there is
	// none, or if it cannot be read because the table is locked.
	Job *queue.Record `json:"job,omitempty"`
	// Reasons has at least one. The first is the verdict. The others also keep the job from running,
	// or would once the first is mended. Reasons that end by themselves, such as a back-off, come
	// after those that a person has to end.
	Reasons []Reason `json:"reasons"`
	// Unknown is what could not be found out, why, and which right would allow it.
	Unknown []string `json:"unknown,omitempty"`
}

// Level returns the worst level of the reasons.
func (a Answer) Level() ops.Level {
	worst := ops.OK
	for _, r := range a.Reasons {
		if r.Level == ops.Fail || r.Level == ops.Warn && worst == ops.OK {
			worst = r.Level
		}
	}
	return worst
}

// passing are the reasons that end by themselves.
var passing = []string{
	"delayed", "put-off", "back-off", "just-due", "given-back", "behind-running", "behind-pending", "behind-back-off",
	"queue-limit", "group-limit", "queue-rate", "group-rate", "throttled", "workers-draining", "workers-busy", "claims-hang", "starved",
	"jobs-ahead",
}

// rankOf is 0 for a reason that a person has to end. Those that end by themselves come behind.
func rankOf(r Reason) int {
	if slices.Contains(passing, r.ID) {
		return 1
	}
	return 0
}

// withoutVanished says that workers did so that have vanished, if there are any. Nobody knows
// whether others have done so since and were stopped in order, so the remedy that holds then stays.
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
	r.Remedy = "start it again (its log, or that of its host, says what ended it); or, if a deploy has replaced it: " + r.Remedy
	return r
}
