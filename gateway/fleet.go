package gateway

import (
	"cmp"
	"context"
	"slices"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// workers returns the workers that have reported themselves and serve only queues that the client
// may use.
func (q *request) workers() (any, error) {
	fleet, err := has[driver.Fleet](q.h.queue, "Fleet")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
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

// runs returns the jobs that workers hold, of the queues that the client may use.
func (q *request) runs() (any, error) {
	fleet, err := has[driver.Fleet](q.h.queue, "Fleet")
	if err != nil {
		return nil, err
	}
	var in wire.RunsRequest
	if err := q.read(&in); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	all, err := fleet.Runs(ctx, cmp.Or(in.Most, defaultRuns), in.Workers...)
	all = slices.DeleteFunc(all, func(r driver.RunningJob) bool { return !q.access.mayUse(r.Queue) })
	for i := range all {
		wire.SetUTC(&all[i].Since)
	}
	return wire.RunsAnswer{Runs: append([]driver.RunningJob{}, all...)}, err
}

// rules returns the rules of the queues that the client may use, and the paused kinds.
func (q *request) rules() (any, error) {
	ruler, err := has[driver.Ruler](q.h.queue, "Ruler")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), callTimeout)
	defer cancel()
	rules, err := ruler.Rules(ctx)
	if err != nil {
		return nil, err
	}
	var paused []string
	if pauser, ok := driver.As[driver.Pauser](q.h.queue); ok {
		paused, err = pauser.PausedKinds(ctx)
	}
	rules = slices.DeleteFunc(rules, func(r queue.Rule) bool { return !q.access.mayUse(r.Queue) })
	return wire.RulesAnswer{Rules: append([]queue.Rule{}, rules...), PausedKinds: append([]string{}, paused...)}, err
}
