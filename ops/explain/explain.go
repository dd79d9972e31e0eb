package explain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
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

// maxLooks is how often Job reads the facts if the job changes meanwhile.
const maxLooks = 3

// Job says why a job does not run, or what has become of it. It changes nothing. The backend
// has to be a [driver.Inspector]. A bad question is a [*queue.InvalidError]. If the database cannot
// be reached, the error says why in one sentence, and wraps the driver's error.
//
// Facts are read one after the other. If the job has changed meanwhile, Job reads them again,
// three times at most. A role that may not see other sessions waits a second where a lock is held,
// and looks again. Each statement is ended after two seconds.
func Job(ctx context.Context, q queue.Queue, question Question) (Answer, error) {
	if _, ok := driver.As[queue.Queue](q); !ok {
		return Answer{}, &queue.InvalidError{Field: "Queue", Problem: "nil"}
	}
	program := words.Program(question.Program)
	question.Program = ""
	if err := question.check(); err != nil {
		return Answer{}, err
	}
	if _, ok := driver.As[driver.Inspector](q); !ok {
		return Answer{}, fmt.Errorf("ops: explain: the backend is no driver.Inspector: %w", errors.ErrUnsupported)
	}
	for look := 1; ; look++ {
		f := &inquiry{Reader: reader.Open(q), Program: program, question: question, at: time.Now()}
		reasons, err := findReasons(ctx, f)
		if err != nil {
			return Answer{}, explainError(ctx, err)
		}
		if f.job != nil && look < maxLooks {
			hasChanged, err := hasChanged(ctx, f)
			if err != nil {
				return Answer{}, explainError(ctx, err)
			}
			if hasChanged {
				continue
			}
		}
		a := Answer{Question: question, At: f.at, Reasons: reasons, Unknown: f.unknown}
		if f.job != nil {
			shown := *f.job
			shown.Payload, shown.Headers = nil, nil
			a.Job = &shown
		}
		return a, nil
	}
}

// explainError returns the error of Job for an error of the backend or the server.
func explainError(ctx context.Context, err error) error {
	if u := reach.Check(err); u != nil && ctx.Err() == nil {
		err = u
	}
	return fmt.Errorf("ops: explain: %w", err)
}

// facts is what one look of Job has read.
type inquiry struct {
	*reader.Reader
	words.Program
	question Question
	at       time.Time     // now, by the backend's clock
	job      *queue.Record // nil if there is none
	rules    ruleSet
	pauses   []string // the paused kinds
	unknown  []string

	knowsWorkers bool
	workers      []driver.WorkerRecord
	claimers     []driver.WorkerRecord // those that would claim the job
	free         []driver.WorkerRecord // those of them that have room
	roles        []reader.WorkerRole   // read if no worker's claims succeed
	committing   []reader.Locker       // those whose commits wait for a standby
	held         *reader.HeldReports   // what keeps reports of workers waiting
	runs         []driver.RunningJob   // what they run now
	longest      time.Duration         // for how long the workers' longest run has lasted
}

// hasChanged reports whether the job is no longer as it was read.
func hasChanged(ctx context.Context, q *inquiry) (bool, error) {
	now, ok, err := q.Inspector.Job(ctx, q.job.ID)
	if err != nil {
		return false, err
	}
	return !ok || now.Status != q.job.Status || now.Fence != q.job.Fence || !now.UpdatedAt.Equal(q.job.UpdatedAt), nil
}

// findReasons reads the facts and returns the reasons, of which there is at least one.
func findReasons(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server != nil {
		if err := q.Server.IdentifyInTime(ctx, reader.ReachTimeout); err != nil {
			return nil, err
		}
		q.at = q.Server.Identity.Clock
	}
	if err := readServedClock(ctx, q); err != nil {
		return nil, err
	}
	committing, err := whyCommitsWait(ctx, q)
	if err != nil {
		return nil, err
	}
	if locked, err := whyUnreadable(ctx, q); err != nil || len(locked) > 0 {
		return append(committing, locked...), err
	}
	reasons, err := findJob(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.job == nil && len(reasons) == 0 {
		reasons = []Reason{goneMeanwhile}
	}
	if q.job == nil {
		return append(committing, reasons...), nil
	}
	if q.job.Status == queue.StatusRunning || q.job.Status == queue.StatusPending {
		if err := readWorkers(ctx, q); err != nil {
			return nil, err
		}
	}
	switch q.job.Status {
	case queue.StatusRunning:
		runs, err := whyRunning(ctx, q)
		return slices.Concat(reasons, committing, runs), err
	case queue.StatusPending:
		waiting, err := whyPending(ctx, q)
		return slices.Concat(reasons, committing, waiting), err
	}
	ended, err := whyEnded(ctx, q)
	return append(reasons, ended...), err
}

// goneMeanwhile is the reason if a job was found, and is not there when it is read.
var goneMeanwhile = Reason{ID: "perhaps-waits", Level: ops.Warn, Verdict: "A job waited a moment ago, and is not found now.",
	Evidence: []string{"it was deleted since, or a pooler (pgpool-II) sends some reads to a standby that lags behind"},
	Remedy:   "ask again; behind such a pooler, give this program the URL of the server"}

// tryOrNote reports whether err is nil. It notes a missing right and a time-out as something that
// is not known, and returns every other error, but for reader.ErrNotTold.
func (q *inquiry) tryOrNote(ctx context.Context, what string, err error) (bool, error) {
	return q.tryOrAsk(ctx, what, "the right that docs/roles.sql grants for it", err)
}

// tryOrAsk is tryOrNote for facts of which it is known what right the role needs.
func (q *inquiry) tryOrAsk(ctx context.Context, what, right string, err error) (bool, error) {
	if err == nil {
		return true, nil
	}
	if errors.Is(err, reader.ErrNotTold) {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	code, who := reader.SQLState(err), "role"
	if errors.Is(err, fs.ErrPermission) { // of Redis
		code, who, right = reader.InsufficientPrivilege, "user", "the rights of docs/redis.acl"
	}
	if code == reader.NotSupported && !q.Server.Identity.IsStandby {
		return false, err
	}
	switch code {
	case reader.InsufficientPrivilege:
		what = fmt.Sprintf("%s: %v. To know it, ask as a %s that has %s", what, err, who, right)
	case reader.QueryCanceled:
		what = fmt.Sprintf("%s: the server had no answer within %v", what, reader.CheckTimeout)
	case reader.NotSupported: // the tables of workers and sleepers are unlogged
		what += ": a standby does not have it"
	case reader.LockNotAvailable:
		what += ": the statement would have to wait for a lock on a table"
	case reader.UndefinedTable, reader.UndefinedColumn, reader.UndefinedFunction:
		what = fmt.Sprintf("%s: the schema lacks something: %v. See the check schema of the doctor", what, err)
	default:
		return false, err
	}
	if !slices.Contains(q.unknown, what) {
		q.unknown = append(q.unknown, what)
	}
	return false, nil
}

// maxPages is how many pages of a list Job reads.
const maxPages = 10

// list calls see for the jobs that filter chooses, the newest first, until it returns false. isAll
// is whether there were no more.
func (q *inquiry) list(ctx context.Context, filter queue.Filter, see func(queue.Record) bool) (isAll bool, err error) {
	filter.Limit, filter.Bare = 1000, true
	if filter.Key != "" { // a bare list has no keys, and payloads may be long
		filter.Limit, filter.Bare = 20, false
	}
	for range maxPages {
		page, next, err := q.Inspector.Jobs(ctx, filter)
		if err != nil {
			return false, err
		}
		for _, r := range page {
			if !see(r) {
				return false, nil
			}
		}
		if next == 0 {
			return true, nil
		}
		filter.Before = next
	}
	return false, nil
}
