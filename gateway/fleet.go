package gateway

import (
	"cmp"
	"context"
	"slices"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// readWorkers returns the workers that have reported themselves and serve only queues that the
// client may use.
func readWorkers(ctx context.Context, q *request, fleet driver.Fleet, _ none) (wire.WorkersAnswer, error) {
	all, err := fleet.Workers(ctx)
	isOther := func(name string) bool { return !q.access.mayUse(name) }
	all = slices.DeleteFunc(all, func(w driver.WorkerRecord) bool { return slices.ContainsFunc(w.Queues, isOther) })
	for i := range all {
		wire.SetUTC(&all[i].StartedAt, &all[i].ClaimedAt, &all[i].DrainingAt, &all[i].SeenAt)
	}
	return wire.WorkersAnswer{Workers: append([]driver.WorkerRecord{}, all...)}, err
}

// defaultRuns is how many jobs of each worker a request for runs gets that does not say it.
const defaultRuns = 100

// readRuns returns the jobs that workers hold, of the queues that the client may use.
func readRuns(ctx context.Context, q *request, fleet driver.Fleet, in wire.RunsRequest) (wire.RunsAnswer, error) {
	all, err := fleet.Runs(ctx, cmp.Or(in.Most, defaultRuns), in.Workers...)
	for i := range all {
		wire.SetUTC(&all[i].Since)
	}
	return wire.RunsAnswer{Runs: visible(q, all, func(r driver.RunningJob) string { return r.Queue })}, err
}

// readRules returns the rules of the queues that the client may use, and the paused kinds.
func readRules(ctx context.Context, q *request, ruler driver.Ruler, _ none) (answer wire.RulesAnswer, err error) {
	rules, err := ruler.Rules(ctx)
	if err != nil {
		return answer, err
	}
	var paused []string
	if pauser, ok := driver.As[driver.Pauser](q.h.queue); ok {
		paused, err = pauser.PausedKinds(ctx)
	}
	answer.Rules = visible(q, rules, func(r queue.Rule) string { return r.Queue })
	answer.PausedKinds = append([]string{}, paused...)
	return answer, err
}
