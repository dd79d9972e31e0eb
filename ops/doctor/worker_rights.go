package doctor

import (
	"context"
	"slices"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/ops/internal/words"
)

// findLackingRoles returns the finding for roles that workers seem to have and that lack rights;
// none if there are no such roles. While a worker claims, such a role may have other work.
func findLackingRoles(ctx context.Context, d *doctor) (finding, error) {
	roles, err := d.Server.WorkerRoles(ctx)
	if err != nil {
		return finding{}, err
	}
	lacking := reader.MayNotWork(roles)
	if len(lacking) == 0 {
		return finding{}, nil
	}
	var texts []string
	for _, r := range lacking {
		texts = append(texts, r.String())
	}
	f := finding{ops.Fail, "workers cannot work as these roles: " + words.Enumerate(texts), d.Server.GrantWorker(d.Program, lacking)}
	if workers, _, err := d.workers(ctx); err == nil && slices.ContainsFunc(workers, reader.Claims) {
		f.level, f.advice = ops.Warn, "if workers have such a role: "+f.advice
	}
	return f, nil
}
