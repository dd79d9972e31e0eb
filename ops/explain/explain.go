package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/reach"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

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
	program := question.Program
	question.Program = ""
	if err := question.check(); err != nil {
		return Answer{}, err
	}
	if _, ok := driver.As[driver.Inspector](q); !ok {
		return Answer{}, fmt.Errorf("ops: explain: the backend is no driver.Inspector: %w", errors.ErrUnsupported)
	}
	for look := 1; ; look++ {
		opened := reader.Open(q)
		found := &inquiry{Reader: opened, Program: opened.Program(program), question: question, at: time.Now()}
		reasons, err := findReasons(ctx, found)
		if err != nil {
			return Answer{}, explainError(ctx, err)
		}
		if found.job != nil && look < maxLooks {
			isStale, err := hasChanged(ctx, found)
			if err != nil {
				return Answer{}, explainError(ctx, err)
			}
			if isStale {
				continue
			}
		}
		a := Answer{Question: question, At: found.at, Reasons: reasons, Unknown: found.unknown}
		if found.job != nil {
			shown := *found.job
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

// readServedClock sets the time to that of the first server of Redis that answers.
func readServedClock(ctx context.Context, q *inquiry) error {
	if q.Served == nil {
		return nil
	}
	servers, err := q.Served.Servers(ctx)
	if err != nil {
		return err
	}
	for _, s := range servers {
		if s.Err == nil {
			q.at = time.Now().Add(s.Ahead)
			return nil
		}
	}
	return nil
}
