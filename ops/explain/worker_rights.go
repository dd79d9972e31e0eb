package explain

import (
	"context"
	"fmt"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

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
		Evidence: append(append(evidence, words.More(len(lacking)-3)...), "no worker is known whose claims succeed"), Remedy: reader.GrantWorker(q.Program, lacking) + then}}, nil
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
