package queues

import (
	"context"
	"slices"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const unseenQueue = "accept a queue or group that no job, rule, schedule or live worker has"

// checkQueues returns an error for the first queue that no job, rule, schedule or live worker has,
// and for a group that no job or rule of its queue has: the name may be misspelt. With unseen it
// only says so.
func (a app) checkQueues(ctx context.Context, d *dburl.Database, states []State, names []string, group string, unseen bool) error {
	for _, name := range names {
		if err := driver.CheckQueue(name); err != nil {
			return err
		}
	}
	seen, err := planned(ctx, d, func(w driver.WorkerRecord) []string { return w.Queues }, func(j *queue.Job) string { return j.Queue })
	if err != nil {
		return err
	}
	seen = append(queuesOf(states), seen...)
	for _, name := range names {
		if err := a.checkSeen("queue", name, seen, unseen); err != nil {
			return err
		}
		if group == "" || !slices.Contains(seen, name) {
			continue
		}
		if err := a.checkGroup(ctx, d, states, name, group, unseen); err != nil {
			return err
		}
	}
	return nil
}

// checkKinds is checkQueues for kinds. If there are more jobs than it has looked at, an older one
// may have a kind: then it says so and returns no error.
func (a app) checkKinds(ctx context.Context, d *dburl.Database, names []string, unseen bool) error {
	for _, name := range names {
		if err := driver.CheckTarget(queue.Target{Kind: name}); err != nil {
			return err
		}
	}
	seen, err := planned(ctx, d, func(w driver.WorkerRecord) []string { return w.Kinds }, func(j *queue.Job) string { return j.Kind })
	if err != nil {
		return err
	}
	newest, err := cli.KindNames(ctx, d)
	if err != nil {
		return err
	}
	seen = append(newest, seen...)
	for _, name := range names {
		if slices.Contains(seen, name) {
			continue
		}
		isFound, isSure, err := lookForJob(ctx, d, queue.Filter{Kind: name})
		switch {
		case err != nil:
			return err
		case !isSure:
			a.Notef("none of the newest jobs, no schedule and no live worker has the kind %s%s", name, cli.DidYouMean(name, seen))
		case !isFound:
			if err := a.checkSeen("kind", name, seen, unseen); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSeen returns an error for a name that is not in seen. With unseen it only says so.
func (a app) checkSeen(what, name string, seen []string, unseen bool) error {
	switch hint := cli.DidYouMean(name, seen); {
	case slices.Contains(seen, name):
		return nil
	case unseen:
		a.Notef("no job, schedule or live worker has the %s %s%s", what, name, hint)
		return nil
	default:
		return cli.Nothingf("no %s %s%s (--unseen does it nevertheless)", what, name, hint)
	}
}

// checkGroup returns an error if neither a job nor a rule of a queue has the group. With unseen it
// only says so. If there are more jobs than it has looked at, an older one may have it.
func (a app) checkGroup(ctx context.Context, d *dburl.Database, states []State, name, group string, unseen bool) error {
	var groups []string
	for _, s := range states {
		for _, r := range s.Rules {
			if s.Queue == name && r.Group != "" {
				groups = append(groups, r.Group)
			}
		}
	}
	if slices.Contains(groups, group) {
		return nil
	}
	isFound, isSure, err := lookForJob(ctx, d, queue.Filter{Queue: name, Group: group})
	if err != nil || isFound || !isSure {
		return err
	}
	newest, err := newestGroups(ctx, d, name)
	if err != nil {
		return err
	}
	hint := cli.DidYouMean(group, append(groups, newest...))
	if !unseen {
		return cli.Nothingf("no job of the queue %s has the group %s%s (--unseen does it nevertheless)", name, group, hint)
	}
	a.Notef("no job of the queue %s has the group %s%s", name, group, hint)
	return nil
}

// newestGroups returns the groups of the newest jobs of a queue.
func newestGroups(ctx context.Context, d *dburl.Database, name string) (groups []string, err error) {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return nil, err
	}
	page, _, err := inspector.Jobs(ctx, queue.Filter{Queue: name, Limit: cli.MaxSeen, Bare: true})
	for _, r := range page {
		if r.Group != "" {
			groups = append(groups, r.Group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), err
}

// lookForJob looks for a job that matches. isSure is false if there are more jobs than it has
// looked at.
func lookForJob(ctx context.Context, d *dburl.Database, f queue.Filter) (isFound, isSure bool, err error) {
	inspector, err := cli.Need[driver.Inspector](d)
	if err != nil {
		return false, false, err
	}
	f.Limit, f.Bare = 1, true
	page, next, err := inspector.Jobs(ctx, f)
	return len(page) > 0, len(page) > 0 || next == 0, err
}

// planned returns the names that live workers serve and schedules enqueue, as far as the role may
// see them.
func planned(ctx context.Context, d *dburl.Database, served func(driver.WorkerRecord) []string, ticked func(*queue.Job) string) (names []string, err error) {
	if fleet, ok := driver.As[driver.Fleet](d.Queue); ok {
		workers, err := fleet.Workers(ctx)
		if err != nil && !cli.IsDenied(err) {
			return nil, err
		}
		for _, w := range workers {
			if !w.Vanished {
				names = append(names, served(w)...)
			}
		}
	}
	if scheduler, ok := driver.As[driver.Scheduler](d.Queue); ok {
		schedules, err := scheduler.Schedules(ctx)
		if err != nil && !cli.IsDenied(err) {
			return nil, err
		}
		for _, s := range schedules {
			names = append(names, ticked(s.Job))
		}
	}
	return names, nil
}
