package explain

import (
	"context"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// whyCommitsWait returns the reason if commits wait for a synchronous standby that does not answer:
// it is not connected, or hangs. The jobs that such sessions have written stay locked. A role that
// sees only its own sessions does not learn that others' wait.
func whyCommitsWait(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil {
		return nil, nil
	}
	settings, err := q.Server.Settings(ctx)
	if err != nil || settings["synchronous_standby_names"] == "" {
		return nil, err
	}
	list, err := q.Server.WaitingCommits(ctx)
	if ok, err := q.tryOrNote(ctx, "whether commits wait for a synchronous standby", err); !ok {
		return nil, err
	}
	if len(list) == 0 {
		if !q.Server.SeesAll {
			q.unknown = append(q.unknown, "whether commits of other roles wait for a synchronous standby: to know it, ask as a role that has pg_read_all_stats")
		}
		return nil, nil
	}
	q.committing = list
	r := Reason{ID: "commits-wait", Level: ops.Fail, Remedy: words.ConnectStandby + words.LeaveCommits,
		Verdict:  "Commits wait for a synchronous standby that does not answer, so claims, settling and enqueueing hang.",
		Evidence: []string{"synchronous_standby_names is " + settings["synchronous_standby_names"]}}
	for i, l := range list {
		if i == 3 {
			r.Evidence = append(r.Evidence, words.More(len(list)-i)...)
			break
		}
		r.Evidence = append(r.Evidence, reader.WaitsInCommit(l))
	}
	return []Reason{r}, nil
}

// isCommitting reports whether the transaction is one whose commit waits for a standby. Ending its
// session undoes nothing, so it is no reason of its own.
func (q *inquiry) isCommitting(l reader.Locker) bool {
	return slices.ContainsFunc(q.committing, func(c reader.Locker) bool { return c.Pid == l.Pid })
}
