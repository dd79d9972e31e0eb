package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// whyDiskFull returns the reason if the disk is full, and no worker is known whose claims succeed.
func whyDiskFull(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.job.ScheduledAt.After(q.at) || slices.ContainsFunc(q.workers, reader.Claims) {
		return nil, nil
	}
	r := Reason{ID: "disk-full", Level: ops.Fail, Verdict: "The disk of the database is full, so workers can neither claim nor report themselves.",
		Evidence: []string{"no worker is known whose claims succeed"}, Remedy: words.MakeRoom}
	switch {
	case q.Server != nil:
		isFull, err := q.Server.IsFull(ctx)
		if ok, err := q.tryOrNote(ctx, "whether the server's disk is full", err); !ok || !isFull {
			return nil, err
		}
		r.Verdict = "The server's disk is full (it has no room for a temporary file of a megabyte), so workers can perhaps neither claim nor report themselves."
		return []Reason{r}, nil
	case q.File != nil:
		q.File.Find(ctx)
		free, ok := q.File.Room()
		if !ok || free >= reader.TooLittleRoom {
			return nil, nil
		}
		r.Evidence = append(r.Evidence, fmt.Sprintf("the disk of the file has room for %d kB", free>>10))
		r.Remedy = "make room on it"
		return []Reason{r}, nil
	}
	return nil, nil
}

// whyCannotWrite returns the reason if the server takes no writes from new sessions. Workers that
// had connected before may go on: if one of them claims, that is no reason.
func whyCannotWrite(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil {
		return nil, nil
	}
	if q.Server.Identity.IsStandby {
		return []Reason{{ID: "read-only", Level: ops.Warn, Verdict: "The server is a standby, which only reads: nobody claims there.",
			Evidence: []string{"what is said here is as old as what the standby has received"}, Remedy: words.AskPrimary}}, nil
	}
	if slices.ContainsFunc(q.workers, reader.Claims) {
		return nil, nil
	}
	places, err := q.Server.ReadOnly(ctx)
	if ok, err := q.tryOrNote(ctx, "whether the database may be written to", err); !ok || len(places) == 0 && !q.Server.Identity.IsReadOnly {
		return nil, err
	}
	return []Reason{{ID: "read-only", Level: ops.Fail, Remedy: reader.AllowWrites(places),
		Verdict:  "Workers can neither claim nor report themselves: " + reader.DescribePlaces(places) + ".",
		Evidence: []string{"no worker is known whose claims succeed"}}}, nil
}

// tooShort is how long a statement_timeout has to be for Job to think nothing of it.
const tooShort = time.Second

// whyCutShort returns the reason if a timeout may end the statements of workers, and no worker is
// known whose claims succeed. It does not know which of the roles the workers have, if any.
func whyCutShort(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil || q.job.ScheduledAt.After(q.at) || slices.ContainsFunc(q.workers, reader.Claims) {
		return nil, nil
	}
	low, err := q.Server.TimeoutsBelow(ctx, tooShort, "statement_timeout", "transaction_timeout")
	if ok, err := q.tryOrNote(ctx, "which timeouts workers have", err); !ok || len(low) == 0 {
		return nil, err
	}
	return []Reason{{ID: "short-timeout", Level: ops.Warn,
		Verdict:  "If a worker runs, the server may end its claims and reports before they are done: " + reader.DescribeTimeouts(low) + ".",
		Evidence: []string{"no worker is known whose claims succeed", "a worker whose statements are ended has lines in its log with \"statement timeout\", or 57014"},
		Remedy:   "raise it for the role or the database to at least 5 s" + reader.ResetTimeouts(low)}}, nil
}

// whyLacksRights returns the reason if a role that workers seem to have lacks rights, and no worker
// is known whose claims succeed.
func whyLacksRights(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil || q.job.ScheduledAt.After(q.at) || slices.ContainsFunc(q.workers, reader.Claims) {
		return nil, nil
	}
	roles, err := q.Server.WorkerRoles(ctx)
	if ok, err := q.tryOrNote(ctx, "which roles have the rights of a worker", err); !ok {
		return nil, err
	}
	q.roles = roles
	lacking := reader.MayNotWork(roles)
	if len(lacking) == 0 {
		return nil, nil
	}
	var evidence []string
	for _, r := range lacking[:min(len(lacking), 3)] {
		evidence = append(evidence, r.String())
	}
	cannot, then := "cannot claim, or not report themselves", ". Then start the workers again"
	if reader.OnlyReports(lacking) { // a worker whose claim is refused ends
		cannot, then = "cannot report themselves", ". Workers that run go on reporting then"
	}
	return []Reason{{ID: "no-rights", Level: ops.Fail,
		Verdict:  fmt.Sprintf("Workers that connect as the role %s %s: it lacks rights.", lacking[0].Name, cannot),
		Evidence: append(append(evidence, words.More(len(lacking)-3)...), "no worker is known whose claims succeed"), Remedy: q.Server.GrantWorker(q.Program, lacking) + then}}, nil
}

// othersEnd is what becomes of other workers. See [engine.Worker].Run.
const othersEnd = ". A worker of another role ends at its first claim, with an error that names the right"

// describeWhoMayWork says which roles have the rights of a worker, if that is known.
func describeWhoMayWork(q *inquiry) []string {
	var may []string
	for _, r := range q.roles {
		if len(r.Lacks) == 0 {
			may = append(may, r.Name)
		}
	}
	switch {
	case q.roles == nil:
		return nil
	case len(may) == 0:
		return []string{"only superusers and the owner of the schema have the rights of a worker" + othersEnd}
	}
	return []string{"roles that may run a worker, beside superusers: " + words.Enumerate(may) + othersEnd}
}
